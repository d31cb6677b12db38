-- When the next deferred event of a shard is due after $2, or at any time without it; null if there is none. Hops over
-- idx_timer_outbox_deferred_retry with two seeks for each destination.
WITH RECURSIVE destinations (destination) AS (
     (SELECT destination
        FROM timer_outbox_deferred
       WHERE shard::integer = $1
       ORDER BY shard::integer, destination
       LIMIT 1)
      UNION ALL
     SELECT next.destination
       FROM destinations
      CROSS JOIN LATERAL (
            SELECT d.destination
              FROM timer_outbox_deferred AS d
             WHERE d.shard::integer = $1 AND d.destination > destinations.destination
             ORDER BY d.shard::integer, d.destination
             LIMIT 1) AS next)
SELECT min(due.retry_at)
  FROM destinations
 CROSS JOIN LATERAL (
       SELECT d.retry_at
         FROM timer_outbox_deferred AS d
        WHERE d.shard::integer = $1 AND d.destination = destinations.destination AND d.retry_at > COALESCE($2::timestamptz, '-infinity')
        ORDER BY d.shard::integer, d.destination, d.retry_at
        LIMIT 1) AS due
