-- The status of a timer, for the outcome of a command. Seeks the primary key.
SELECT rowid, state, command_at, command_id
  FROM timer_schedules
 WHERE tenant_id = ?1 AND service_call_id = ?2
