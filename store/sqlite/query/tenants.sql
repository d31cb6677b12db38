-- The next ?3 tenants after ?2 that have Scheduled timers, and whether one of
-- them is due. Hops over idx_timer_schedules_tenant_due with one seek a
-- tenant, so the cost depends on ?3 alone, not on how many timers there are.
WITH RECURSIVE tenants (tenant_id, n) AS (
     SELECT (SELECT tenant_id
               FROM timer_schedules
              WHERE state = 'Scheduled' AND tenant_id > ?2
              ORDER BY tenant_id
              LIMIT 1), 1
      UNION ALL
     SELECT (SELECT tenant_id
               FROM timer_schedules
              WHERE state = 'Scheduled' AND tenant_id > tenants.tenant_id
              ORDER BY tenant_id
              LIMIT 1), n + 1
       FROM tenants
      WHERE tenant_id IS NOT NULL AND n < ?3)
SELECT tenant_id,
       EXISTS (SELECT 1
                 FROM timer_schedules s
                WHERE s.state = 'Scheduled' AND s.tenant_id = tenants.tenant_id AND s.due_at <= ?1)
  FROM tenants
 WHERE tenant_id IS NOT NULL
