-- Append the parked events of the numbers in the JSON array ?1 to the outbox, as if they
-- were new, in the order of their numbers. Seeks the rowid.
INSERT INTO timer_outbox (id, payload, headers, appended_at)
SELECT id, payload, headers, ?2
  FROM timer_outbox_parked
 WHERE seq IN (SELECT value FROM jsonb_each(?1))
 ORDER BY seq
