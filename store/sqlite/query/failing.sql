-- The first ?1 destinations whose events have failed, and up to ?2 deferred events of each, but for snoozed ones. Hops
-- over idx_timer_outbox_deferred_retry with a seek a destination.
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
      WHERE destination IS NOT NULL
      LIMIT ?1),
     waits (destination, waiting) AS MATERIALIZED (
     SELECT destination, (
            SELECT json_array(count(*), min(appended_at), max(attempts), substr(max(printf('%09d%s', attempts, last_error)), 10))
              FROM (SELECT d.appended_at, d.attempts, d.last_error
                      FROM timer_outbox_deferred AS d
                     WHERE d.unclaimed = 0 AND d.destination = destinations.destination
                     ORDER BY d.retry_at
                     LIMIT ?2))
       FROM destinations
      WHERE destination IS NOT NULL)
SELECT destination, waiting ->> 0, waiting ->> 1, waiting ->> 3
  FROM waits
 WHERE waiting ->> 2 > 0
