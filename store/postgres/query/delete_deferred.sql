-- As delete.sql, events that were deferred.
  WITH gone AS (
       DELETE FROM timer_outbox_deferred AS o
        USING unnest($2::bigint[], $3::bigint[]) AS acked (first, last)
        WHERE o.shard = $1 AND o.seq BETWEEN $4 AND $5 AND o.seq BETWEEN acked.first AND acked.last
       RETURNING 1)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM gone
HAVING count(*) > 0
