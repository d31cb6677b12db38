-- Remove the events that claim.sql has appended, given the same. Seeks
-- idx_timer_outbox_deferred_retry.
DELETE FROM timer_outbox_deferred
 WHERE seq IN (
       SELECT seq
         FROM timer_outbox_deferred
        WHERE unclaimed = 1 AND destination >= ?1 AND destination < ?2
        ORDER BY destination, retry_at, seq
        LIMIT ?3)
