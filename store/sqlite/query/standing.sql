-- Where a timer stands, for telling what a command did. Seeks the primary key.
SELECT rowid, state, command_at, command_id
  FROM timer_schedules
 WHERE tenant_id = ?1 AND service_call_id = ?2
