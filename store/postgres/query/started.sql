-- Read what history.sql reads where the role may not read the rest: when the server was started,
-- and the last row of the numbers.
SELECT pg_postmaster_start_time(), 0::bigint, '', 0::bigint,
       coalesce((SELECT seq + 0 FROM timer_numbers ORDER BY seq + 0 DESC LIMIT 1), 0)
