-- Read the counts of a tenant. Seeks idx_timer_counts_folded and idx_timer_counts_fresh.
SELECT coalesce(sum(scheduled), 0)::bigint, coalesce(sum(reached), 0)::bigint,
       coalesce(sum(expired), 0)::bigint, coalesce(sum(canceled), 0)::bigint
  FROM (SELECT scheduled, reached, expired, canceled
          FROM timer_counts
         WHERE folded AND tenant_id = $1
         UNION ALL
        SELECT scheduled, reached, expired, canceled
          FROM timer_counts
         WHERE NOT folded AND tenant_id = $1) AS counts
