-- Set timers again that status.sql has locked and that are not Reached, as the rows in the
-- JSON array $1 say. Fetches each row by its place.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM json_to_recordset($1::json)
              AS c (place tid, was_canceled boolean, command_at bigint, command_id text, due_at bigint, correlation_id text, traceparent text, tracestate text, data text)),
       changed AS (
       UPDATE timer_schedules AS t
          SET command_at = c.command_at,
              command_id = c.command_id,
              due_at = to_timestamp(c.due_at / 1000.0),
              correlation_id = c.correlation_id,
              traceparent = c.traceparent,
              tracestate = c.tracestate,
              data = c.data,
              canceled_at = NULL,
              state = 'Scheduled'
         FROM command AS c
        WHERE t.ctid = c.place
       RETURNING t.tenant_id, c.was_canceled),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, canceled)
       SELECT tenant_id, count(*), -count(*)
         FROM changed
        WHERE was_canceled
        GROUP BY tenant_id)
SELECT count(*)
  FROM changed
