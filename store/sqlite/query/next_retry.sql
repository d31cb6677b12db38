-- When the next deferred event is due after ?1, null if there is none. Hops over
-- idx_timer_outbox_deferred_retry with two seeks a destination.
WITH RECURSIVE destinations (destination) AS (
     SELECT (SELECT destination
               FROM timer_outbox_deferred
              WHERE unclaimed = 0
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
SELECT min((SELECT min(due.retry_at)
              FROM timer_outbox_deferred AS due
             WHERE due.unclaimed = 0 AND due.destination = destinations.destination AND due.retry_at > ?1))
  FROM destinations
