-- The version of the schema whose step says which instances may go on, and the oldest of
-- them; zeros if none says so. A later step that says nothing leaves the comment as it is.
SELECT coalesce(said[1]::bigint, 0),
       coalesce(said[2]::bigint, 0)
  FROM regexp_match(obj_description('timer_schema'::regclass, 'pg_class'),
                    '^schema (\d+), instances from (\d+) on may go on$') AS said
