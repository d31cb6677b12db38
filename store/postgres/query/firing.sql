-- Read the pauses that are in force at $1. A row without a tenant is about all tenants. There
-- is one row for each pause, so there are few.
SELECT tenant_id, paused_at, paused_until, paused_by
  FROM timer_firing
 WHERE paused_until IS NULL OR paused_until > $1
