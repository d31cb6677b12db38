-- The service calls of the first ?1 events that no handler wants. Seeks
-- idx_timer_outbox_deferred_retry.
SELECT destination
  FROM timer_outbox_deferred
 WHERE unclaimed = 1
 ORDER BY destination
 LIMIT ?1
