-- Cancel timers that wait. Timers that are Canceled get the newer version, so that no older
-- ScheduleTimer that the command supersedes fires. A timer that is new is a
-- tombstone. VALUES is repeated for each timer of a batch. Seeks the primary key.
INSERT INTO timer_schedules ({columns})
VALUES ({values})
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET command_at = excluded.command_at,
       command_id = excluded.command_id,
       state = excluded.state,
       canceled_at = excluded.canceled_at,
       data = NULL
