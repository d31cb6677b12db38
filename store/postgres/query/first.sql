-- Read the number of the first event of a shard. Seeks the primary key.
SELECT seq
  FROM timer_outbox
 WHERE shard = $1
 ORDER BY shard, seq
 LIMIT 1
