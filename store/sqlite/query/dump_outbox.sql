-- All events that wait for the broker, in their order. Walks the rowid.
SELECT id, payload, headers, appended_at, attempts, last_error, NULL
  FROM timer_outbox
 ORDER BY seq
