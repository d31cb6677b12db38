-- Events that the broker has acked, by their numbers, deferred or not. Seeks both
-- primary keys.
  WITH gone AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = ANY ($2::bigint[])
       RETURNING 1),
       gone_deferred AS (
       DELETE FROM timer_outbox_deferred
        WHERE shard = $1 AND seq = ANY ($2::bigint[])
       RETURNING 1)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM (SELECT FROM gone UNION ALL SELECT FROM gone_deferred) AS events
HAVING count(*) > 0
