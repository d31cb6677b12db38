-- The first ?1 service calls of events that no handler wants. Seeks
-- idx_timer_outbox_deferred_retry.
SELECT DISTINCT destination
  FROM timer_outbox_deferred
 WHERE unclaimed = 1
 ORDER BY destination
 LIMIT ?1
