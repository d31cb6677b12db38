-- Set timers that are new, wait or are Canceled. VALUES is repeated for each timer of a
-- batch. Seeks the primary key.
INSERT INTO timer_schedules ({columns})
VALUES ({values})
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET command_at = excluded.command_at,
       command_id = excluded.command_id,
       state = excluded.state,
       due_at = excluded.due_at,
       expires_at = excluded.expires_at,
       canceled_at = NULL,
       {traveling = excluded.}
