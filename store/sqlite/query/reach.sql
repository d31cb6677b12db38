-- Claim and mark in one statement: the earliest due timers become Reached and
-- come back. Seeks idx_timer_schedules_due_at, which holds Scheduled rows only.
UPDATE timer_schedules
   SET state = 'Reached', reached_at = ?1
 WHERE rowid IN (
       SELECT rowid
         FROM timer_schedules
        WHERE state = 'Scheduled' AND due_at <= ?1
        ORDER BY due_at
        LIMIT +?2)
RETURNING tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
          command_at, command_id, traceparent, tracestate
