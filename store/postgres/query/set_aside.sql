-- Keep damaged rows of timers as they were found at $2, and delete them. $1 are their
-- places, where a statement of this transaction has put them and has made them Reached. A
-- trigger counts them.
  WITH gone AS (
       DELETE FROM timer_schedules
        WHERE ctid = ANY ($1::tid[])
       RETURNING tenant_id, service_call_id, due_at, command_at, command_id)
INSERT INTO timer_damaged (tenant_id, service_call_id, state, due_at, command_at, command_id, found_at)
SELECT tenant_id, service_call_id, 'Scheduled', due_at, command_at, command_id, $2
  FROM gone
