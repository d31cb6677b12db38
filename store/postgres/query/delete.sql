-- Delete events that the broker has acked: the ranges of numbers from $2 to $3, all of them
-- between $4 and $5. Seeks the primary key between $4 and $5. Without these bounds it would
-- walk the dead rows while another transaction holds a snapshot (0.74 s a delete, measured
-- 2026-11).
  WITH gone AS (
       DELETE FROM timer_outbox AS o
        USING unnest($2::bigint[], $3::bigint[]) AS acked (first, last)
        WHERE o.shard = $1 AND o.seq BETWEEN $4 AND $5 AND o.seq BETWEEN acked.first AND acked.last
       RETURNING 1)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM gone
HAVING count(*) > 0
