-- The indexes of the timers, but for that of the primary key, and how they are
-- made.
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid)
  FROM pg_index
 WHERE indrelid = 'timer_schedules'::regclass AND NOT indisprimary
