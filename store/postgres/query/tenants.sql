-- Read the next tenants after $2 that have Scheduled timers, in order, and whether the first
-- timer of each is due at $1. Timers due before $5 are skipped. Ends when $3 tenants were
-- read, or $4 of them have a due timer. Hops over idx_timer_schedules_tenant_due with one seek
-- for each tenant, however many timers it has.
WITH RECURSIVE tenants (tenant_id, is_due, looked, found) AS (
     SELECT $2::text COLLATE "C", false, 0, 0
      UNION ALL
     SELECT first.tenant_id, first.due_at <= $1, looked + 1, found + CASE WHEN first.due_at <= $1 THEN 1 ELSE 0 END
       FROM tenants
      CROSS JOIN LATERAL (
            SELECT t.tenant_id, t.due_at
              FROM timer_schedules AS t
             WHERE t.state = 'Scheduled' AND t.tenant_id > tenants.tenant_id AND t.due_at >= $5
             ORDER BY t.tenant_id, t.due_at
             LIMIT 1) AS first
      WHERE looked < $3 AND found < $4)
SELECT tenant_id, is_due
  FROM tenants
 WHERE looked > 0
