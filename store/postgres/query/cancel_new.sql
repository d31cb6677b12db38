-- Leave tombstones for keys that have no timer, as schedule_new.sql sets timers.
-- Seeks the primary key.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
              WITH ORDINALITY AS c (tenant_id, service_call_id, command_at, command_id, number)),
       added AS (
       INSERT INTO timer_schedules
              (tenant_id, service_call_id, command_at, command_id, registered_at, canceled_at, state)
       SELECT tenant_id, service_call_id, command_at, command_id, $5, $5, 'Canceled'
         FROM command
           ON CONFLICT (tenant_id, service_call_id) DO NOTHING
       RETURNING tenant_id, service_call_id),
       counted AS (
       INSERT INTO timer_counts (tenant_id, canceled)
       SELECT tenant_id, count(*)
         FROM added
        GROUP BY tenant_id)
SELECT number
  FROM command
 WHERE NOT EXISTS (
       SELECT 1
         FROM added
        WHERE added.tenant_id = command.tenant_id AND added.service_call_id = command.service_call_id)
