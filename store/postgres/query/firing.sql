-- The pauses of firing that are in force at $1, of tenants and, without one, of all.
-- There are few rows: one for each pause.
SELECT tenant_id, paused_at, paused_until, paused_by
  FROM timer_firing
 WHERE paused_until IS NULL OR paused_until > $1
