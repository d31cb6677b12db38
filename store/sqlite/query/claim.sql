-- Append up to ?3 unclaimed events, whose service calls are from ?1 on and before ?2, to the
-- events that are to be sent. Seeks idx_timer_outbox_deferred_retry.
INSERT INTO timer_outbox (id, payload, headers, appended_at, attempts)
SELECT id, payload, headers, appended_at, attempts
  FROM timer_outbox_deferred
 WHERE unclaimed = 1 AND destination >= ?1 AND destination < ?2
 ORDER BY destination, retry_at, seq
 LIMIT ?3
