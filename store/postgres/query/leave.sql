-- Restore the settings of the host program, which join.sql kept, after our statements in its transaction.
SELECT set_config('enable_seqscan', current_setting('timers.enable_seqscan'), true),
       set_config('enable_bitmapscan', current_setting('timers.enable_bitmapscan'), true),
       set_config('enable_sort', current_setting('timers.enable_sort'), true),
       set_config('enable_incremental_sort', current_setting('timers.enable_incremental_sort'), true),
       set_config('jit', current_setting('timers.jit'), true)
