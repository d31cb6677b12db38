-- The version of the schema. The table is there: exists.sql says so.
SELECT coalesce(max(version_id), 0)
  FROM timer_schema
