-- Set a timer unless a newer command, the same one, or Reached forbids it.
-- Seeks the primary key. VALUES is repeated for each command of a batch.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, correlation_id, due_at, registered_at, state, command_at, command_id, traceparent, tracestate)
VALUES (?, ?, ?, ?, ?, 'Scheduled', ?, ?, ?, ?)
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET correlation_id = excluded.correlation_id,
       due_at = excluded.due_at,
       canceled_at = NULL,
       state = 'Scheduled',
       command_at = excluded.command_at,
       command_id = excluded.command_id,
       traceparent = excluded.traceparent,
       tracestate = excluded.tracestate
 WHERE timer_schedules.state <> 'Reached'
   AND (excluded.command_at, excluded.command_id) > (timer_schedules.command_at, timer_schedules.command_id)
