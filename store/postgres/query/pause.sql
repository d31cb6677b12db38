-- Pause firing of a tenant, or of all tenants. If firing is paused already, only the end of
-- the pause changes. Seeks the primary key.
INSERT INTO timer_firing (tenant_id, paused_at, paused_until, paused_by)
VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant_id) DO UPDATE
   SET paused_at = CASE WHEN timer_firing.paused_until <= excluded.paused_at THEN excluded.paused_at ELSE timer_firing.paused_at END,
       paused_by = CASE WHEN timer_firing.paused_until <= excluded.paused_at THEN excluded.paused_by ELSE timer_firing.paused_by END,
       paused_until = excluded.paused_until
