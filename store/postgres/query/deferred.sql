-- Read deferred events of a shard that are due at $2: up to $5 of each destination from $3
-- on, $4 in all. Hops over idx_timer_outbox_deferred_retry with one seek for each
-- destination.
WITH RECURSIVE destinations (destination) AS (
     (SELECT destination
        FROM timer_outbox_deferred
       WHERE shard::integer = $1 AND destination >= $3
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
SELECT due.seq, due.id, due.payload, due.headers, due.attempts, due.destination
  FROM destinations
 CROSS JOIN LATERAL (
       SELECT d.seq, d.id, d.payload, d.headers, d.attempts, d.destination
         FROM timer_outbox_deferred AS d
        WHERE d.shard::integer = $1 AND d.destination = destinations.destination AND d.retry_at <= $2
        ORDER BY d.shard::integer, d.destination, d.retry_at
        LIMIT $5) AS due
 LIMIT $4
