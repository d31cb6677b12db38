-- When the next deferred event of a shard is due, null if there is none. Hops over
-- idx_timer_outbox_deferred_retry with one seek for each destination.
WITH RECURSIVE destinations (destination, retry_at) AS (
     (SELECT destination, retry_at
        FROM timer_outbox_deferred
       WHERE shard::integer = $1
       ORDER BY shard::integer, destination, retry_at
       LIMIT 1)
      UNION ALL
     SELECT next.destination, next.retry_at
       FROM destinations
      CROSS JOIN LATERAL (
            SELECT d.destination, d.retry_at
              FROM timer_outbox_deferred AS d
             WHERE d.shard::integer = $1 AND d.destination > destinations.destination
             ORDER BY d.shard::integer, d.destination, d.retry_at
             LIMIT 1) AS next)
SELECT min(retry_at)
  FROM destinations
