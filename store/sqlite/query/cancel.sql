-- Take a timer back, or leave a tombstone. A timer that is Canceled already
-- only moves its version, else an older ScheduleTimer that this command
-- supersedes could still fire. Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, registered_at, canceled_at, state, command_at, command_id)
VALUES (?1, ?2, ?3, ?3, 'Canceled', ?4, ?5)
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET canceled_at = excluded.canceled_at,
       state = 'Canceled',
       command_at = excluded.command_at,
       command_id = excluded.command_id
 WHERE timer_schedules.state <> 'Reached'
   AND (excluded.command_at, excluded.command_id) > (timer_schedules.command_at, timer_schedules.command_id)
