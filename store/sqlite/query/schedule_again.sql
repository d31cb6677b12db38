-- Set a timer again, unless a newer command, the same one, or Reached forbids
-- it. Seeks the primary key.
UPDATE timer_schedules
   SET command_at = ?3,
       command_id = ?4,
       due_at = ?5,
       correlation_id = ?6,
       traceparent = ?7,
       tracestate = ?8,
       data = ?9,
       canceled_at = NULL,
       state = 'Scheduled'
 WHERE tenant_id = ?1 AND service_call_id = ?2
   AND state <> 'Reached'
   AND (command_at, command_id) < (?3, ?4)
