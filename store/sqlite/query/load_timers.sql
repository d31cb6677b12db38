-- Keep a timer as another store had it. VALUES is repeated for each timer of a
-- batch. OR FAIL, since the transaction goes anyway if a row is refused: to be able
-- to take back the statement alone costs a sixth of the time.
INSERT OR FAIL INTO timer_schedules
       (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
        command_at, command_id, traceparent, tracestate, data, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
