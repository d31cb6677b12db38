-- Make our statements in a host's transaction use the indexes, as settings.sql does. The
-- host's own settings are kept for leave.sql. Returns the database of the transaction: the
-- table has one row.
  WITH kept AS MATERIALIZED (
       SELECT set_config('timers.enable_seqscan', current_setting('enable_seqscan'), true),
              set_config('timers.enable_bitmapscan', current_setting('enable_bitmapscan'), true),
              set_config('timers.enable_sort', current_setting('enable_sort'), true),
              set_config('timers.enable_incremental_sort', current_setting('enable_incremental_sort'), true),
              set_config('timers.jit', current_setting('jit'), true)),
       ours AS MATERIALIZED (
       SELECT set_config('enable_seqscan', 'off', true),
              set_config('enable_bitmapscan', 'off', true),
              set_config('enable_sort', 'off', true),
              set_config('enable_incremental_sort', 'off', true),
              set_config('jit', 'off', true)
         FROM kept)
SELECT id
  FROM timer_database, ours
