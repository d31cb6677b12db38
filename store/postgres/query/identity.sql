-- Read the id and the name of this database. The table has one row.
SELECT id, current_database(), current_schema()
  FROM timer_database
