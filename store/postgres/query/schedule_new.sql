-- Set timers for keys that have none. A known key changes nothing: its number in
-- the arrays comes back. Keys are sorted and differ, so that two transactions
-- with the same new keys wait for each other in the same order. $9 is null if no
-- command has data.
-- Seeks the primary key.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::timestamptz[], $6::text[], $7::text[], $8::text[], $9::text[])
              WITH ORDINALITY AS c (tenant_id, service_call_id, command_at, command_id, due_at, correlation_id, traceparent, tracestate, data, number)),
       added AS (
       INSERT INTO timer_schedules
              (tenant_id, service_call_id, command_at, command_id, due_at, correlation_id, traceparent, tracestate, data, registered_at, state)
       SELECT tenant_id, service_call_id, command_at, command_id, due_at,
              nullif(correlation_id, ''), nullif(traceparent, ''), nullif(tracestate, ''), nullif(data, ''), $10, 'Scheduled'
         FROM command
           ON CONFLICT (tenant_id, service_call_id) DO NOTHING
       RETURNING tenant_id, service_call_id),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled)
       SELECT tenant_id, count(*)
         FROM added
        GROUP BY tenant_id)
SELECT number
  FROM command
 WHERE NOT EXISTS (
       SELECT 1
         FROM added
        WHERE added.tenant_id = command.tenant_id AND added.service_call_id = command.service_call_id)
