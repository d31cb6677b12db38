-- The version of the schema whose step says which instances may go on, and the oldest of
-- them; zeros if none says so. A later step that says nothing leaves the comment as it is.
SELECT coalesce((regexp_match(said, '^schema (\d+), instances from (\d+) on may go on$'))[1]::bigint, 0),
       coalesce((regexp_match(said, '^schema (\d+), instances from (\d+) on may go on$'))[2]::bigint, 0)
  FROM obj_description('timer_schema_version'::regclass, 'pg_class') AS said
