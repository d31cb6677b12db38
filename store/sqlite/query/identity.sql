-- Which database this is. The table has one row.
SELECT id
  FROM timer_database
