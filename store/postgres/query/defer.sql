-- Defer events, and add to their attempts. They go to the shards $7: either their own shard
-- $1, or the shard of unclaimed events. Seeks the primary key.
  WITH failed AS (
       SELECT *
         FROM unnest($2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::integer[], $7::smallint[]) AS f (seq, last_error, destination, retry_at, attempts, shard)),
       moved AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = ANY ($2::bigint[])
       RETURNING seq, id, payload, headers, appended_at, attempts)
INSERT INTO timer_outbox_deferred (shard, seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at)
SELECT failed.shard, seq, moved.id, moved.payload, moved.headers, moved.appended_at, moved.attempts + failed.attempts, failed.last_error, failed.destination, failed.retry_at
  FROM moved
  JOIN failed USING (seq)
