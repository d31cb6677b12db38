-- Keep an event that the broker refuses for good. Seeks the rowid.
INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
SELECT seq, id, payload, headers, appended_at, attempts + 1, ?2, ?3
  FROM timer_outbox
 WHERE seq = ?1
