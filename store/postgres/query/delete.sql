-- Events that the broker has acked, by their numbers. Seeks the primary key.
  WITH gone AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = ANY ($2::bigint[])
       RETURNING 1)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM gone
HAVING count(*) > 0
