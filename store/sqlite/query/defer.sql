-- Defer an event, and add to its attempts. Seeks the rowid.
INSERT INTO timer_outbox_deferred (seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at, unclaimed)
SELECT seq, id, payload, headers, appended_at, attempts + ?5, ?2, ?3, ?4, ?6
  FROM timer_outbox
 WHERE seq = ?1
