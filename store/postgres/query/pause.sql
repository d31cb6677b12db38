-- Pause firing, unless it is paused. The table has one row.
UPDATE timer_database
   SET paused_at = $1, paused_by = $2
 WHERE paused_at IS NULL
