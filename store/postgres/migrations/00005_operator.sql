-- +goose Up

-- What operators change: since when nothing fires, and who paused it; null while
-- timers fire.
ALTER TABLE timer_database
  ADD COLUMN paused_at timestamptz(3),
  ADD COLUMN paused_by text;

-- Parked events of a tenant, in their order. The number is an expression so that no
-- plan for rows by their numbers takes this index, whatever the statistics say.
CREATE INDEX idx_timer_outbox_parked_tenant
    ON timer_outbox_parked (((headers::json ->> 'tenantId') COLLATE "C"), (seq + 0));
