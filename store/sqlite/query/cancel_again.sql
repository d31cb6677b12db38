-- A newer CancelTimer for a timer that is Canceled already moves its version,
-- else an older ScheduleTimer that this command supersedes could still fire;
-- and the row is kept as long from now. Seeks the primary key.
UPDATE timer_schedules
   SET command_at = ?3,
       command_id = ?4,
       canceled_at = ?5
 WHERE tenant_id = ?1 AND service_call_id = ?2
   AND state = 'Canceled'
   AND (command_at, command_id) < (?3, ?4)
