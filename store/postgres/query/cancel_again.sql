-- Take timers back that status.sql has locked and that are not Reached. $1 are
-- their places, $2 tells which of them were Canceled already: those get the newer
-- version, else an older ScheduleTimer that this command supersedes could still
-- fire, and are kept as long from now. Fetches each row by its place.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM unnest($1::tid[], $2::boolean[], $3::bigint[], $4::text[])
              AS c (place, was_canceled, command_at, command_id)),
       changed AS (
       UPDATE timer_schedules AS t
          SET command_at = c.command_at,
              command_id = c.command_id,
              canceled_at = $5,
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
