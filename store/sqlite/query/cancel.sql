-- Take a timer back, or leave a tombstone for a key that has none. Changes
-- nothing if the timer does not wait or the command is not newer.
-- Seeks the primary key.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, command_at, command_id, registered_at, canceled_at, state)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, 'Canceled')
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET command_at = excluded.command_at,
       command_id = excluded.command_id,
       canceled_at = excluded.canceled_at,
       state = 'Canceled'
 WHERE timer_schedules.state = 'Scheduled'
   AND (timer_schedules.command_at, timer_schedules.command_id) < (excluded.command_at, excluded.command_id)
