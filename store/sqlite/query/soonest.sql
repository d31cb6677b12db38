-- The next ?4 timers of all tenants that are due before ?1, after the one of due time
-- ?2 and rowid ?3: those of the same due time and those behind. Seeks
-- idx_timer_schedules_due_at twice, which has them in this order.
SELECT *
  FROM (SELECT tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
               command_at, command_id, traceparent, tracestate, data, rowid
          FROM timer_schedules
         WHERE state = 'Scheduled' AND due_at = ?2 AND due_at < ?1 AND rowid > ?3
         ORDER BY due_at, rowid
         LIMIT ?4)
 UNION ALL
SELECT *
  FROM (SELECT tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
               command_at, command_id, traceparent, tracestate, data, rowid
          FROM timer_schedules
         WHERE state = 'Scheduled' AND due_at > ?2 AND due_at < ?1
         ORDER BY due_at, rowid
         LIMIT ?4)
 LIMIT ?4
