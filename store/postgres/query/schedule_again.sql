-- Schedule timers again that status.sql has locked and that are neither Reached nor Expired,
-- as the rows in the JSON array $1 say. Fetches each row by its place.
  WITH command AS MATERIALIZED (
       SELECT *
         FROM json_to_recordset($1::json)
              AS c (place tid, was_canceled boolean, command_at bigint, command_id text, due_at bigint, expires_at bigint, {traveling text})),
       changed AS (
       UPDATE timer_schedules AS t
          SET command_at = c.command_at,
              command_id = c.command_id,
              due_at = to_timestamp(c.due_at / 1000.0),
              expires_at = to_timestamp(c.expires_at / 1000.0),
              {traveling = c.},
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
