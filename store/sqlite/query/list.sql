-- A page of a tenant's timers, in any state if ?3 is empty. Seeks the primary
-- key from the last of the page before.
SELECT tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
       command_at, command_id, traceparent, tracestate
  FROM timer_schedules
 WHERE tenant_id = ?1 AND service_call_id > ?2 AND (?3 = '' OR state = ?3)
 ORDER BY service_call_id
 LIMIT ?4
