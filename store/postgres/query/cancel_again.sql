-- Cancel timers that status.sql has locked and that are neither Reached nor Expired, as the
-- rows in the JSON array $1 say. Timers that are Canceled already get the newer version,
-- because otherwise an older ScheduleTimer that this command supersedes could still fire.
-- They are kept as long as others, from now on. Fetches each row by its place.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM json_to_recordset($1::json)
              AS c (place tid, was_canceled boolean, command_at bigint, command_id text, canceled_at bigint)),
       changed AS (
       UPDATE timer_schedules AS t
          SET command_at = c.command_at,
              command_id = c.command_id,
              canceled_at = to_timestamp(c.canceled_at / 1000.0),
              data = NULL,
              state = 'Canceled'
         FROM command AS c
        WHERE t.ctid = c.place
       RETURNING t.tenant_id, c.was_canceled),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, canceled)
       SELECT tenant_id, -count(*), count(*)
         FROM changed
        WHERE NOT was_canceled
        GROUP BY tenant_id)
SELECT count(*)
  FROM changed
