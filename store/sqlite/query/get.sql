-- One timer. Seeks the primary key.
SELECT tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
       command_at, command_id, traceparent, tracestate, data
  FROM timer_schedules
 WHERE tenant_id = ?1 AND service_call_id = ?2
