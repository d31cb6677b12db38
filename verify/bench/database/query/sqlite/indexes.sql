-- The indexes of the timers, but for that of the primary key, and how they are
-- made.
SELECT name, sql
  FROM sqlite_schema
 WHERE type = 'index' AND tbl_name = 'timer_schedules' AND sql IS NOT NULL
