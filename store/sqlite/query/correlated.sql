-- Timers of any tenant with a correlation id, for operators. Seeks
-- idx_timer_schedules_correlation_id.
SELECT tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
       command_at, command_id, traceparent, tracestate, data
  FROM timer_schedules
 WHERE correlation_id = ?1
 LIMIT ?2
