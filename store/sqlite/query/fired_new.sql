-- Events that were published and have no timer leave one that is Reached. VALUES is
-- repeated for each event of a batch. Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, due_at, reached_at, registered_at, command_at, command_id,
        correlation_id, traceparent, tracestate, data, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'Reached')
    ON CONFLICT (tenant_id, service_call_id) DO NOTHING
RETURNING tenant_id
