-- +goose Up
SET LOCAL lock_timeout = '2s';

-- The indexes by due time keep each timer as an entry of its own. Those of timers that
-- are due at the same time were kept as one, which is dead only when all of them have
-- fired: until then each claim stepped over those that had. What is there stays as it
-- is.
ALTER INDEX idx_timer_schedules_due_at SET (deduplicate_items = off);
ALTER INDEX idx_timer_schedules_tenant_due SET (deduplicate_items = off);

COMMENT ON TABLE timer_schema_version IS 'schema 8, instances from 7 on may go on';
