-- Timers that status.sql has locked and whose events were published become Reached. $1
-- are their places, $2 tells which of them were Canceled. Fetches each row by its
-- place.
  WITH event AS MATERIALIZED (
       SELECT *
         FROM unnest($1::tid[], $2::boolean[], $3::timestamptz[], $4::timestamptz[])
              AS e (place, was_canceled, due_at, reached_at)),
       changed AS (
       UPDATE timer_schedules AS t
          SET state = 'Reached',
              due_at = e.due_at,
              reached_at = e.reached_at,
              canceled_at = NULL
         FROM event AS e
        WHERE t.ctid = e.place
       RETURNING t.tenant_id, e.was_canceled),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled)
       SELECT tenant_id, -count(*) FILTER (WHERE NOT was_canceled), count(*), -count(*) FILTER (WHERE was_canceled)
         FROM changed
        GROUP BY tenant_id)
SELECT count(*)
  FROM changed
