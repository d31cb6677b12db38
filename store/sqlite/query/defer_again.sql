-- Add to the attempts of a deferred event, and say when the next one is. Seeks
-- the rowid.
UPDATE timer_outbox_deferred
   SET attempts = attempts + ?5, last_error = ?2, destination = ?3, retry_at = ?4, unclaimed = ?6
 WHERE seq = ?1
