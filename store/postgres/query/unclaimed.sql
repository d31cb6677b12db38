-- Read the service calls of the first $1 events that have no handler. Seeks
-- idx_timer_outbox_deferred_retry.
SELECT destination
  FROM timer_outbox_deferred
 WHERE shard::integer = -1
 ORDER BY shard::integer, destination
 LIMIT $1
