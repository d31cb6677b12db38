-- Make the first $3 deferred events of shard $1 that are not due at $2 due then, except snoozed ones.
-- Hops over idx_timer_outbox_deferred_retry with one seek for each destination, and fetches each row by
-- its place.
WITH RECURSIVE destinations (destination) AS (
     (SELECT destination
        FROM timer_outbox_deferred
       WHERE shard::integer = $1 AND destination < '~'
       ORDER BY shard::integer, destination
       LIMIT 1)
      UNION ALL
     SELECT next.destination
       FROM destinations
      CROSS JOIN LATERAL (
            SELECT d.destination
              FROM timer_outbox_deferred AS d
             WHERE d.shard::integer = $1 AND d.destination > destinations.destination AND d.destination < '~'
             ORDER BY d.shard::integer, d.destination
             LIMIT 1) AS next),
     waiting AS MATERIALIZED (
     SELECT later.place
       FROM destinations
      CROSS JOIN LATERAL (
            SELECT d.ctid AS place
              FROM timer_outbox_deferred AS d
             WHERE d.shard::integer = $1 AND d.destination = destinations.destination AND d.retry_at > $2
             ORDER BY d.shard::integer, d.destination, d.retry_at
             LIMIT $3) AS later
      LIMIT $3)
UPDATE timer_outbox_deferred AS o
   SET retry_at = $2
  FROM waiting
 WHERE o.ctid = waiting.place
