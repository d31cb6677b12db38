-- Fire again. The table has one row.
UPDATE timer_database
   SET paused_at = NULL, paused_by = NULL
 WHERE paused_at IS NOT NULL
