-- A recovery is under way, unless one is. The table has one row.
UPDATE timer_database
   SET recovering_at = $1
 WHERE recovering_at IS NULL
