-- No recovery is under way. The table has one row.
UPDATE timer_database
   SET recovering_at = NULL
 WHERE recovering_at IS NOT NULL
