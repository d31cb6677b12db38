-- The indexes of timers that are none of a key.
SELECT name, sql
  FROM sqlite_schema
 WHERE type = 'index' AND tbl_name = 'timer_schedules' AND sql IS NOT NULL
 ORDER BY rowid
