-- Add timers for keys that have none. A known key is not changed, and its number among the
-- rows in the JSON array $1 is returned. Keys are sorted and distinct, so that two
-- transactions with the same new keys wait for each other in the same order. Seeks the
-- primary key.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM ROWS FROM (json_to_recordset($1::json)
              AS (tenant_id text, service_call_id text, command_at bigint, command_id text, state text, registered_at bigint,
                  due_at bigint, expires_at bigint, reached_at bigint, canceled_at bigint, {traveling text}))
              WITH ORDINALITY AS c
                  ({columns}, number)),
       added AS (
       INSERT INTO timer_schedules ({columns})
       SELECT tenant_id, service_call_id, command_at, command_id, state, to_timestamp(registered_at / 1000.0),
              to_timestamp(due_at / 1000.0), to_timestamp(expires_at / 1000.0), to_timestamp(reached_at / 1000.0), to_timestamp(canceled_at / 1000.0),
              {traveling}
         FROM command
           ON CONFLICT (tenant_id, service_call_id) DO NOTHING
       RETURNING tenant_id, service_call_id, state),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, reached, expired, canceled)
       SELECT tenant_id, count(*) FILTER (WHERE state = 'Scheduled'), count(*) FILTER (WHERE state = 'Reached'), count(*) FILTER (WHERE state = 'Expired'),
              count(*) FILTER (WHERE state = 'Canceled')
         FROM added
        GROUP BY tenant_id)
SELECT number
  FROM command
 WHERE NOT EXISTS (
       SELECT 1
         FROM added
        WHERE added.tenant_id = command.tenant_id AND added.service_call_id = command.service_call_id)
