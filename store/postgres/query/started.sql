-- Read when the server was started, and the last row of the numbers.
SELECT pg_postmaster_start_time(),
       coalesce((SELECT seq + 0 FROM timer_numbers ORDER BY seq + 0 DESC LIMIT 1), 0)
