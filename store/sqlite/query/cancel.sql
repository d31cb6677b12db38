-- Take a timer back that waits, unless the command is not newer. Seeks the
-- primary key.
UPDATE timer_schedules
   SET command_at = ?3,
       command_id = ?4,
       canceled_at = ?5,
       data = NULL,
       state = 'Canceled'
 WHERE tenant_id = ?1 AND service_call_id = ?2
   AND state = 'Scheduled'
   AND (command_at, command_id) < (?3, ?4)
