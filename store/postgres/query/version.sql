-- Read the version of the schema. exists.sql has found the table.
SELECT coalesce(max(version_id), 0)
  FROM timer_schema
