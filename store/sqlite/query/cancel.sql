-- Cancel timers that wait. Timers that are Canceled get the newer version, else an older
-- ScheduleTimer that the command supersedes could still fire. A timer that is new is a
-- tombstone. VALUES is repeated for each timer of a batch. Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, command_at, command_id, state, registered_at, due_at, reached_at, canceled_at,
        correlation_id, traceparent, tracestate, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET command_at = excluded.command_at,
       command_id = excluded.command_id,
       state = excluded.state,
       canceled_at = excluded.canceled_at,
       data = NULL
