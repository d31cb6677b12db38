-- Timers whose events were published become Reached or Expired, whether they are new, wait or are
-- Canceled. VALUES is repeated for each timer of a batch.
-- Seeks the primary key.
INSERT INTO timer_schedules ({columns})
VALUES ({values})
    ON CONFLICT (tenant_id, service_call_id) DO UPDATE
   SET state = excluded.state,
       due_at = excluded.due_at,
       expires_at = excluded.expires_at,
       reached_at = excluded.reached_at,
       canceled_at = NULL
