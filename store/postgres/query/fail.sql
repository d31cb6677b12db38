-- Count an attempt. Seeks the primary key.
UPDATE timer_outbox
   SET attempts = attempts + 1, last_error = $3
 WHERE shard = $1 AND seq = $2
