-- Read the part of history.sql that a role without further rights may read: when the server was started,
-- and the last row of the numbers.
SELECT pg_postmaster_start_time(), 0::bigint, '', 0::bigint,
       coalesce((SELECT seq + 0 FROM timer_numbers ORDER BY seq + 0 DESC LIMIT 1), 0)
