-- Count the first failed attempt of an event, and defer it. Seeks the rowid.
INSERT INTO timer_outbox_deferred (seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at)
SELECT seq, id, payload, headers, appended_at, attempts + 1, ?2, ?3, ?4
  FROM timer_outbox
 WHERE seq = ?1
