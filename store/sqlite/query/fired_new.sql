-- Events that were published and have no timer leave one that is Reached: each event
-- is a [tenant_id, service_call_id, due_at, reached_at, id, correlation_id,
-- traceparent, tracestate, data] in the JSON array ?1. Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, due_at, reached_at, registered_at, command_at, command_id,
        correlation_id, traceparent, tracestate, data, state)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 3, value ->> 3, value ->> 4,
       value ->> 5, value ->> 6, value ->> 7, value ->> 8, 'Reached'
  FROM json_each(?1)
 WHERE true
    ON CONFLICT (tenant_id, service_call_id) DO NOTHING
RETURNING tenant_id
