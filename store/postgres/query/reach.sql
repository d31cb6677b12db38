-- Claim and mark in one statement: at most $2 due timers become Reached at $1 and
-- come back, the oldest first. Those due before $4 are left alone. If $3, and more
-- than $2 are due, none does: the first column says so. What another transaction is
-- changing is left alone. A row that is due later than its entry in the index says
-- comes back too, though no row may be Reached before it is due: the index is damaged.
-- Seeks idx_timer_schedules_due_at, which holds Scheduled rows only, and fetches
-- each row by its place, where it stays while it is locked.
  WITH due AS MATERIALIZED (
       SELECT $3 AND count(*) > $2 AS backlogged
         FROM (SELECT 1
                 FROM timer_schedules
                WHERE state = 'Scheduled' AND due_at BETWEEN $4 AND $1
                ORDER BY due_at
                LIMIT $2 + 1) AS due),
       claimed AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_schedules
        WHERE state = 'Scheduled' AND due_at BETWEEN $4 AND $1 AND NOT (SELECT backlogged FROM due)
        ORDER BY due_at
        LIMIT $2
          FOR UPDATE SKIP LOCKED),
       reached AS (
       UPDATE timer_schedules AS t
          SET state = 'Reached', reached_at = greatest($1, t.due_at)
         FROM claimed
        WHERE t.ctid = claimed.place
       RETURNING t.tenant_id, t.service_call_id, t.correlation_id, t.due_at, t.registered_at,
                 t.command_at, t.command_id, t.traceparent, t.tracestate, t.data),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, reached)
       SELECT tenant_id, -count(*), count(*)
         FROM reached
        GROUP BY tenant_id)
SELECT due.backlogged, tenant_id, service_call_id, correlation_id, due_at, registered_at,
       command_at, command_id, traceparent, tracestate, data
  FROM due
  LEFT JOIN reached ON true
