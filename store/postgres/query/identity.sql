-- Which database this is, and what it is called. The table has one row.
SELECT id, current_database(), current_schema()
  FROM timer_database
