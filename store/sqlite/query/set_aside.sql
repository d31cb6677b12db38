-- Keep a damaged row of a timer as it was found. Seeks the rowid.
INSERT INTO timer_damaged (tenant_id, service_call_id, state, due_at, command_at, command_id, found_at)
SELECT tenant_id, service_call_id, state, due_at, command_at, command_id, ?2
  FROM timer_schedules
 WHERE rowid = ?1
