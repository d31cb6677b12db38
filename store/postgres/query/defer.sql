-- Add to the attempts of events and defer them: those of timer_outbox move, those
-- that are deferred stay. Seeks both primary keys.
  WITH failed AS (
       SELECT *
         FROM unnest($2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::integer[]) AS f (seq, last_error, destination, retry_at, attempts)),
       moved AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = ANY ($2::bigint[])
       RETURNING seq, id, payload, headers, appended_at, attempts),
       added AS (
       INSERT INTO timer_outbox_deferred (shard, seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at)
       SELECT $1, seq, moved.id, moved.payload, moved.headers, moved.appended_at, moved.attempts + failed.attempts, failed.last_error, failed.destination, failed.retry_at
         FROM moved
         JOIN failed USING (seq))
UPDATE timer_outbox_deferred AS d
   SET attempts = d.attempts + failed.attempts, last_error = failed.last_error, destination = failed.destination, retry_at = failed.retry_at
  FROM failed
 WHERE d.shard = $1 AND d.seq = failed.seq
