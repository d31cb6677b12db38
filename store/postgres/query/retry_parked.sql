-- Put parked events at the end of shard $3 of the outbox, as if they were new, in the
-- order of their numbers, and count them. Seeks the primary key.
  WITH gone AS (
       DELETE FROM timer_outbox_parked
        WHERE seq = ANY ($1::bigint[])
       RETURNING seq, id, payload, headers),
       added AS (
       INSERT INTO timer_outbox (id, payload, headers, appended_at, shard)
       SELECT id, payload, headers, $2, $3
         FROM gone
        ORDER BY seq
       RETURNING 1),
       counted AS (
       INSERT INTO timer_counts (tenant_id, outbox)
       SELECT '', count(*)
         FROM added
       HAVING count(*) > 0)
SELECT count(*)
  FROM added
