-- Read the counts of the next $2 tenants after $1 that have timers, in order. Hops over
-- idx_timer_counts_folded and idx_timer_counts_fresh from tenant to tenant.
WITH RECURSIVE tenants (tenant_id) AS (
     SELECT $1::text COLLATE "C"
      UNION ALL
     SELECT next.tenant_id
       FROM tenants
      CROSS JOIN LATERAL (
            SELECT min(either.tenant_id) AS tenant_id
              FROM ((SELECT c.tenant_id
                       FROM timer_counts AS c
                      WHERE c.folded AND c.tenant_id > tenants.tenant_id
                      ORDER BY c.tenant_id
                      LIMIT 1)
                     UNION ALL
                    (SELECT c.tenant_id
                       FROM timer_counts AS c
                      WHERE NOT c.folded AND c.tenant_id > tenants.tenant_id
                      ORDER BY c.tenant_id
                      LIMIT 1)) AS either) AS next
      WHERE next.tenant_id IS NOT NULL)
SELECT tenant_id, scheduled, reached, expired, canceled
  FROM tenants
 CROSS JOIN LATERAL (
       SELECT sum(scheduled)::bigint AS scheduled, sum(reached)::bigint AS reached,
              sum(expired)::bigint AS expired, sum(canceled)::bigint AS canceled
         FROM (SELECT scheduled, reached, expired, canceled
                 FROM timer_counts AS c
                WHERE c.folded AND c.tenant_id = tenants.tenant_id
                UNION ALL
               SELECT scheduled, reached, expired, canceled
                 FROM timer_counts AS c
                WHERE NOT c.folded AND c.tenant_id = tenants.tenant_id) AS counts) AS sums
 WHERE tenant_id <> $1 AND scheduled + reached + expired + canceled > 0
 LIMIT $2
