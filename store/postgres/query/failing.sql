-- The first $1 destinations of a shard whose events have failed, and up to $2 deferred events of
-- each, but for snoozed ones. Hops over idx_timer_outbox_deferred_retry with one seek for each. The reason is that of the
-- event that was tried most often, without a sort.
WITH RECURSIVE destinations (shard, destination) AS (
     (SELECT shard::integer, destination
        FROM timer_outbox_deferred
       WHERE shard::integer >= 0
       ORDER BY shard::integer, destination
       LIMIT 1)
      UNION ALL
     SELECT next.shard, next.destination
       FROM destinations
      CROSS JOIN LATERAL (
            SELECT d.shard::integer AS shard, d.destination
              FROM timer_outbox_deferred AS d
             WHERE (d.shard::integer, d.destination) > (destinations.shard, destinations.destination)
             ORDER BY d.shard::integer, d.destination
             LIMIT 1) AS next)
SELECT destinations.destination, waiting.events, waiting.oldest, waiting.reason
  FROM destinations
 CROSS JOIN LATERAL (
       SELECT count(*) AS events, min(due.appended_at) AS oldest, max(due.attempts) AS attempts,
              substr(max(to_char(due.attempts, 'FM0000000000') || due.last_error COLLATE "C"), 11) AS reason
         FROM (SELECT d.appended_at, d.attempts, d.last_error
                 FROM timer_outbox_deferred AS d
                WHERE d.shard::integer = destinations.shard AND d.destination = destinations.destination
                ORDER BY d.shard::integer, d.destination, d.retry_at
                LIMIT $2) AS due) AS waiting
 WHERE waiting.attempts > 0 AND destinations.destination < '~'
 LIMIT $1
