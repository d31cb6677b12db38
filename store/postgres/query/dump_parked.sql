-- All events that the broker refused for good, in their order.
SELECT id, payload, headers, appended_at, attempts, last_error, parked_at
  FROM timer_outbox_parked
 ORDER BY seq
