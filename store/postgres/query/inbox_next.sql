-- Find the earliest time at which a message is handled again. Hops over idx_timer_inbox_retry
-- with a seek for each tenant, however many messages it has.
WITH RECURSIVE tenants (tenant_id, retry_at) AS (
     SELECT ''::text COLLATE "C", NULL::timestamptz(3)
      UNION ALL
     SELECT first.tenant_id, first.retry_at
       FROM tenants
      CROSS JOIN LATERAL (
            SELECT i.tenant_id, i.retry_at
              FROM timer_inbox AS i
             WHERE i.retry_at IS NOT NULL AND i.tenant_id > tenants.tenant_id
             ORDER BY i.tenant_id, i.retry_at
             LIMIT 1) AS first)
SELECT min(retry_at)
  FROM tenants
