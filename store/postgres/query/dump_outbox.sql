-- All events that wait for the broker, shard by shard, in their order.
SELECT id, payload, headers, appended_at, attempts, last_error, NULL::timestamptz
  FROM (SELECT shard, seq, id, payload, headers, appended_at, attempts, last_error FROM timer_outbox
         UNION ALL
        SELECT shard, seq, id, payload, headers, appended_at, attempts, last_error FROM timer_outbox_deferred) AS events
 ORDER BY shard, seq
