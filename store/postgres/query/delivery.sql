-- Find the event of id $1 among the first $2 events of each kind, and add a row without a
-- time if there may be more events than these. An index of ids would slow down every event.
WITH head AS MATERIALIZED (
     SELECT id, appended_at, attempts, last_error FROM timer_outbox ORDER BY shard, seq LIMIT $2),
     deferred AS MATERIALIZED (
     SELECT id, appended_at, attempts, last_error, destination, retry_at FROM timer_outbox_deferred ORDER BY shard, seq LIMIT $2),
     parked AS MATERIALIZED (
     SELECT id, parked_at, attempts, last_error FROM timer_outbox_parked ORDER BY seq LIMIT $2)
SELECT 'waiting', appended_at, attempts, coalesce(last_error, ''), '', NULL::timestamptz
  FROM head
 WHERE id = $1
 UNION ALL
SELECT CASE WHEN destination < '~' THEN 'deferred' ELSE 'snoozed' END, appended_at, attempts, last_error, ltrim(destination, '~'), retry_at
  FROM deferred
 WHERE id = $1
 UNION ALL
SELECT 'parked', parked_at, attempts, last_error, '', NULL
  FROM parked
 WHERE id = $1
 UNION ALL
SELECT 'unknown', NULL::timestamptz, 0, '', '', NULL
 WHERE (SELECT count(*) FROM head) >= $2
    OR (SELECT count(*) FROM deferred) >= $2
    OR (SELECT count(*) FROM parked) >= $2
