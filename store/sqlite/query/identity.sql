-- Read the id of this database. The table has one row.
SELECT id
  FROM timer_database
