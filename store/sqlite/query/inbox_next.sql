-- Find the earliest time at which a message is handled again. Hops over idx_timer_inbox_retry
-- with two seeks for each tenant, however many messages it has.
WITH RECURSIVE tenants (tenant_id) AS (
     SELECT ''
      UNION ALL
     SELECT (SELECT i.tenant_id
               FROM timer_inbox AS i
              WHERE i.retry_at IS NOT NULL AND i.tenant_id > tenants.tenant_id
              ORDER BY i.tenant_id
              LIMIT 1)
       FROM tenants
      WHERE tenant_id IS NOT NULL)
SELECT min((SELECT i.retry_at
              FROM timer_inbox AS i
             WHERE i.tenant_id = tenants.tenant_id AND i.retry_at IS NOT NULL
             ORDER BY i.retry_at
             LIMIT 1))
  FROM tenants
