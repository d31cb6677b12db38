-- How many rows of this database were changed since it was made.
SELECT tup_inserted + tup_updated + tup_deleted
  FROM pg_stat_database
 WHERE datname = current_database()
