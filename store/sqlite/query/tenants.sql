-- The next ?3 tenants after ?2 that have Scheduled timers, in order, and whether
-- the first of these is due. Hops over idx_timer_schedules_tenant_due with two
-- seeks a tenant, however many timers it has. Rows come as they are found.
WITH RECURSIVE tenants (tenant_id) AS (
     SELECT (SELECT tenant_id
               FROM timer_schedules
              WHERE state = 'Scheduled' AND tenant_id > ?2
              ORDER BY tenant_id
              LIMIT 1)
      UNION ALL
     SELECT (SELECT tenant_id
               FROM timer_schedules
              WHERE state = 'Scheduled' AND tenant_id > tenants.tenant_id
              ORDER BY tenant_id
              LIMIT 1)
       FROM tenants
      WHERE tenant_id IS NOT NULL)
SELECT tenant_id,
       (SELECT due_at
          FROM timer_schedules s
         WHERE s.state = 'Scheduled' AND s.tenant_id = tenants.tenant_id
         ORDER BY due_at
         LIMIT 1) <= ?1
  FROM tenants
 WHERE tenant_id IS NOT NULL
 LIMIT +?3
