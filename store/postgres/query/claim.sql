-- Append up to $4 unclaimed events, whose service calls are from $2 on and before $3, to
-- shard $1 of the outbox. Skips events that another instance is claiming. Seeks
-- idx_timer_outbox_deferred_retry, and the primary key.
  WITH mine AS MATERIALIZED (
       SELECT shard, seq
         FROM timer_outbox_deferred
        WHERE shard::integer = -1 AND destination >= $2 AND destination < $3
        ORDER BY shard::integer, destination
        LIMIT $4
          FOR UPDATE SKIP LOCKED),
       gone AS (
       DELETE FROM timer_outbox_deferred AS d
        USING mine
        WHERE d.shard = mine.shard AND d.seq = mine.seq
       RETURNING d.id, d.payload, d.headers, d.appended_at, d.attempts),
       added AS (
       INSERT INTO timer_outbox (id, payload, headers, appended_at, attempts, shard)
       SELECT id, payload, headers, appended_at, attempts, $1
         FROM gone
       RETURNING 1)
SELECT count(*)
  FROM added
