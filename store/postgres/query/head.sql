-- Read the oldest events of a shard after a number. Seeks the primary key.
SELECT seq, id, payload, headers, attempts, ''
  FROM timer_outbox
 WHERE shard = $1 AND seq > $2
 ORDER BY shard, seq
 LIMIT $3
