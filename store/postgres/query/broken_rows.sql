-- Keep rows of timers that are due at $1 and break a constraint, as they were found at $1,
-- and delete them: no statement can make them Reached. A trigger counts them. Reads all that is
-- due by idx_timer_schedules_due_at, and fetches each row by its place.
  WITH broken AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_schedules
        WHERE state = 'Scheduled' AND due_at <= $1
          AND (command_at < 0
            OR canceled_at IS NOT NULL
            OR length(tenant_id) NOT BETWEEN 1 AND 64
            OR length(service_call_id) NOT BETWEEN 1 AND 128
            OR length(command_id) NOT BETWEEN 1 AND 128
            OR octet_length(data) > 4096)
        ORDER BY due_at
          FOR UPDATE SKIP LOCKED),
       gone AS (
       DELETE FROM timer_schedules AS t
        USING broken
        WHERE t.ctid = broken.place
       RETURNING t.tenant_id, t.service_call_id, t.due_at, t.command_at, t.command_id)
INSERT INTO timer_damaged (tenant_id, service_call_id, state, due_at, command_at, command_id, found_at)
SELECT tenant_id, service_call_id, 'Scheduled', due_at, command_at, command_id, $1
  FROM gone
