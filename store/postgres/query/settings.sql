-- Set the parameters of every transaction, which end with it. A process that is stopped in
-- the middle keeps its rows from others until the first of these limits. A session that waits
-- for a row waits longer than that, and a statement longer than both. If the process does not
-- read the server's data for that time, the server closes the connection. There is an index
-- for each statement. Plans must not depend on statistics, which may be old, nor on
-- arguments, so that each plan is made once for a connection. $1 is relaxed durability. $2 is when
-- the server was started, if that matters: on another server, or after a restart, the statement
-- fails with the code 42704 (see history.go).
SELECT set_config('idle_in_transaction_session_timeout', '4s', true),
       set_config('tcp_user_timeout', '4s', true),
       set_config('lock_timeout', '6s', true),
       set_config('statement_timeout', '20s', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_bitmapscan', 'off', true),
       set_config('enable_sort', 'off', true),
       set_config('enable_incremental_sort', 'off', true),
       set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       CASE WHEN $1 THEN set_config('synchronous_commit', 'off', true) END,
       CASE WHEN $2::timestamptz <> pg_postmaster_start_time() THEN current_setting('timers.other_history') END
