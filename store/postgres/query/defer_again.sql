-- Add to the attempts of events that are deferred, and set the time of the next attempt.
-- Seeks the primary key.
UPDATE timer_outbox_deferred AS d
   SET shard = failed.shard, attempts = d.attempts + failed.attempts, last_error = failed.last_error, destination = failed.destination, retry_at = failed.retry_at
  FROM unnest($2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::integer[], $7::smallint[]) AS failed (seq, last_error, destination, retry_at, attempts, shard)
 WHERE d.shard = $1 AND d.seq = failed.seq
