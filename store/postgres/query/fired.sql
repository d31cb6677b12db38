-- Mark timers whose events were published as Reached or Expired, as the rows in the JSON
-- array $1 say. status.sql has locked them. Fetches each row by its place.
  WITH event AS MATERIALIZED (
       SELECT *
         FROM json_to_recordset($1::json)
              AS e (place tid, was_canceled boolean, state text, due_at bigint, expires_at bigint, reached_at bigint)),
       changed AS (
       UPDATE timer_schedules AS t
          SET state = e.state,
              due_at = to_timestamp(e.due_at / 1000.0),
              expires_at = to_timestamp(e.expires_at / 1000.0),
              reached_at = to_timestamp(e.reached_at / 1000.0),
              canceled_at = NULL
         FROM event AS e
        WHERE t.ctid = e.place
       RETURNING t.tenant_id, t.state, e.was_canceled),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, reached, expired, canceled)
       SELECT tenant_id, -count(*) FILTER (WHERE NOT was_canceled), count(*) FILTER (WHERE state = 'Reached'), count(*) FILTER (WHERE state = 'Expired'),
              -count(*) FILTER (WHERE was_canceled)
         FROM changed
        GROUP BY tenant_id)
SELECT count(*)
  FROM changed
