-- The next $2 parked events behind number $1. Seeks the primary key.
SELECT seq, id, payload, headers, appended_at, parked_at, attempts, last_error
  FROM timer_outbox_parked
 WHERE seq > $1
 ORDER BY seq
 LIMIT $2
