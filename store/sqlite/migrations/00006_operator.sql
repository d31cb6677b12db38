-- +goose Up

-- What operators change: since when nothing fires, and who paused it; null while
-- timers fire. A backup of a database that is paused is paused.
ALTER TABLE timer_database ADD COLUMN paused_at INTEGER;
ALTER TABLE timer_database ADD COLUMN paused_by TEXT;

-- Parked events of a tenant, in their order.
CREATE INDEX idx_timer_outbox_parked_tenant
    ON timer_outbox_parked (headers ->> '$.tenantId');
