-- List the next $3 tenants after $2 that have messages which are due at $1, in order, and how
-- many of these, counted up to $4. Leaves out the tenants in $5. Hops over
-- idx_timer_inbox_retry with a seek for each tenant, however many messages it has.
WITH RECURSIVE tenants (tenant_id, is_due, found) AS (
     SELECT $2::text COLLATE "C", false, 0
      UNION ALL
     SELECT first.tenant_id, first.is_due, found + CASE WHEN first.is_due THEN 1 ELSE 0 END
       FROM tenants
      CROSS JOIN LATERAL (
            SELECT i.tenant_id, i.retry_at <= $1 AND i.tenant_id <> ALL ($5::text[]) AS is_due
              FROM timer_inbox AS i
             WHERE i.retry_at IS NOT NULL AND i.tenant_id > tenants.tenant_id
             ORDER BY i.tenant_id, i.retry_at
             LIMIT 1) AS first
      WHERE found < $3)
SELECT tenants.tenant_id,
       (SELECT count(*)
          FROM (SELECT 1
                  FROM timer_inbox AS i
                 WHERE i.retry_at IS NOT NULL AND i.tenant_id = ANY (ARRAY[tenants.tenant_id]) AND i.retry_at <= $1
                 ORDER BY i.tenant_id, i.retry_at
                 LIMIT $4) AS due)
  FROM tenants
 WHERE tenants.is_due
