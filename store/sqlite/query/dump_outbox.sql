-- All events that wait for the broker, in their order. Merges both tables by their
-- rowids.
SELECT seq, id, payload, headers, appended_at, attempts, last_error, NULL
  FROM timer_outbox
 UNION ALL
SELECT seq, id, payload, headers, appended_at, attempts, last_error, NULL
  FROM timer_outbox_deferred
 ORDER BY seq
