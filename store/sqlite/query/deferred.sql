-- Deferred events that are due at ?1: up to ?4 of each destination from ?2 on, ?3
-- in all. Hops over idx_timer_outbox_deferred_retry with a seek a destination.
WITH RECURSIVE destinations (destination) AS (
     SELECT (SELECT destination
               FROM timer_outbox_deferred
              WHERE unclaimed = 0 AND destination >= ?2
              ORDER BY destination
              LIMIT 1)
      UNION ALL
     SELECT (SELECT d.destination
               FROM timer_outbox_deferred AS d
              WHERE d.unclaimed = 0 AND d.destination > destinations.destination
              ORDER BY d.destination
              LIMIT 1)
       FROM destinations
      WHERE destination IS NOT NULL)
SELECT d.seq, d.id, d.payload, d.headers, d.attempts, d.destination
  FROM destinations
 CROSS JOIN timer_outbox_deferred AS d
 WHERE d.seq IN (
       SELECT due.seq
         FROM timer_outbox_deferred AS due
        WHERE due.unclaimed = 0 AND due.destination = destinations.destination AND due.retry_at <= ?1
        ORDER BY due.retry_at
        LIMIT +?4)
 LIMIT +?3
