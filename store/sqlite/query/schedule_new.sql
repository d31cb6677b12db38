-- Set a timer for a key that has none. A known key changes nothing. VALUES is
-- repeated for each timer of a batch.
-- Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, command_at, command_id, due_at, correlation_id, traceparent, tracestate, data, registered_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'Scheduled')
    ON CONFLICT (tenant_id, service_call_id) DO NOTHING
