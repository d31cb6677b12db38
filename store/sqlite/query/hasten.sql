-- The first ?2 deferred events that a handler wants now, and that are not due at ?1, are due then. Hops
-- over idx_timer_outbox_deferred_retry with a seek a destination.
UPDATE timer_outbox_deferred
   SET retry_at = ?1
 WHERE seq IN (
       WITH RECURSIVE destinations (destination) AS (
            SELECT (SELECT destination
                      FROM timer_outbox_deferred
                     WHERE unclaimed = 0 AND destination < '~'
                     ORDER BY destination
                     LIMIT 1)
             UNION ALL
            SELECT (SELECT d.destination
                      FROM timer_outbox_deferred AS d
                     WHERE d.unclaimed = 0 AND d.destination > destinations.destination AND d.destination < '~'
                     ORDER BY d.destination
                     LIMIT 1)
              FROM destinations
             WHERE destination IS NOT NULL)
       SELECT later.seq
         FROM destinations
        CROSS JOIN timer_outbox_deferred AS later
        WHERE later.unclaimed = 0 AND later.destination = destinations.destination AND later.retry_at > ?1
        LIMIT +?2)
