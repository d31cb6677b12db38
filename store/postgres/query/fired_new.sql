-- Events that were published and have no timer leave one that is Reached, as
-- schedule_new.sql sets timers: the numbers of known keys come back.
-- Seeks the primary key.
  WITH event AS MATERIALIZED (
       SELECT *
         FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[])
              WITH ORDINALITY AS e (tenant_id, service_call_id, id, due_at, reached_at, correlation_id, traceparent, tracestate, data, number)),
       added AS (
       INSERT INTO timer_schedules
              (tenant_id, service_call_id, command_at, command_id, due_at, registered_at, reached_at, correlation_id, traceparent, tracestate, data, state)
       SELECT tenant_id, service_call_id, extract(epoch FROM reached_at) * 1000, id, due_at, reached_at, reached_at,
              nullif(correlation_id, ''), nullif(traceparent, ''), nullif(tracestate, ''), nullif(data, ''), 'Reached'
         FROM event
           ON CONFLICT (tenant_id, service_call_id) DO NOTHING
       RETURNING tenant_id, service_call_id),
       counted AS (
       INSERT INTO timer_counts (tenant_id, reached)
       SELECT tenant_id, count(*)
         FROM added
        GROUP BY tenant_id)
SELECT number
  FROM event
 WHERE NOT EXISTS (
       SELECT 1
         FROM added
        WHERE added.tenant_id = event.tenant_id AND added.service_call_id = event.service_call_id)
