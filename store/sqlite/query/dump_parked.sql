-- All events that the broker refuses for good, in their order. Walks the rowid.
SELECT seq, id, payload, headers, appended_at, attempts, last_error, parked_at
  FROM timer_outbox_parked
 ORDER BY seq
