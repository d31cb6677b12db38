-- Timers whose events were published become Reached, whether they are new, wait or are
-- Canceled. VALUES is repeated for each timer of a batch.
-- Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, command_at, command_id, state, registered_at, due_at, reached_at, canceled_at,
        correlation_id, traceparent, tracestate, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET state = excluded.state,
       due_at = excluded.due_at,
       reached_at = excluded.reached_at,
       canceled_at = NULL
