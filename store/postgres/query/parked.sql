-- Read the $2 newest parked events before number $1. Seeks the primary key.
SELECT seq, id, payload, headers, appended_at, parked_at, attempts, last_error
  FROM timer_outbox_parked
 WHERE seq < $1
 ORDER BY seq DESC
 LIMIT $2
