-- Append a parked event to the outbox, as if it were new. Seeks the rowid.
INSERT INTO timer_outbox (id, payload, headers, appended_at)
SELECT id, payload, headers, ?2
  FROM timer_outbox_parked
 WHERE seq = ?1
