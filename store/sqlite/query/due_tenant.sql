-- As due.sql, for one tenant. Seeks idx_timer_schedules_tenant_due.
SELECT rowid, tenant_id, service_call_id, correlation_id, due_at, registered_at,
       command_at, command_id, traceparent, tracestate, data
  FROM timer_schedules
 WHERE state = 'Scheduled' AND tenant_id = ?3 AND due_at <= ?1
 ORDER BY due_at
 LIMIT +?2
