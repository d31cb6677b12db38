-- Read the version of the schema whose step says which instances may go on, and the oldest of
-- these instances; zeros if no step says so. A later step that does not say it leaves the
-- comment as it is.
SELECT coalesce(said[1]::bigint, 0),
       coalesce(said[2]::bigint, 0)
  FROM regexp_match(obj_description('timer_schema'::regclass, 'pg_class'),
                    '^schema (\d+), instances from (\d+) on may go on$') AS said
