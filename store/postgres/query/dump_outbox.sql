-- All events that wait for the broker, shard by shard, in their order.
SELECT id, payload, headers, appended_at, attempts, last_error, NULL::timestamptz
  FROM timer_outbox
 ORDER BY shard, seq
