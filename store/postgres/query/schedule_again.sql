-- Set timers again that status.sql has locked and that are not Reached. $1 are
-- their places, $2 tells which of them were Canceled. Fetches each row by its
-- place.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM unnest($1::tid[], $2::boolean[], $3::bigint[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[])
              AS c (place, was_canceled, command_at, command_id, due_at, correlation_id, traceparent, tracestate, data)),
       changed AS (
       UPDATE timer_schedules AS t
          SET command_at = c.command_at,
              command_id = c.command_id,
              due_at = c.due_at,
              correlation_id = nullif(c.correlation_id, ''),
              traceparent = nullif(c.traceparent, ''),
              tracestate = nullif(c.tracestate, ''),
              data = nullif(c.data, ''),
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
