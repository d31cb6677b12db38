-- Claim and mark timers in one statement: at most $2 due timers become Reached or Expired at
-- $1 and are returned, the oldest first. Timers due before $4 are skipped. If $3 is true and
-- more than $2 are due, none is marked, and the first column says so. Timers that another
-- transaction is changing are skipped, and so are those in timer_awaited. These are sought by
-- their keys, since until is not compared in the form of its index. A row whose due time
-- is later than its entry in the index is returned too, though it must not be Reached: then
-- the index is damaged. Seeks idx_timer_schedules_due_at, which holds Scheduled rows only, and
-- fetches each row by its place, where it stays while it is locked.
  WITH due AS MATERIALIZED (
       SELECT $3 AND count(*) > $2 AS backlogged
         FROM (SELECT 1
                 FROM timer_schedules
                WHERE state = 'Scheduled' AND due_at BETWEEN $4 AND $1
                ORDER BY due_at
                LIMIT $2 + 1) AS due),
       claimed AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_schedules AS t
        WHERE state = 'Scheduled' AND due_at BETWEEN $4 AND $1 AND NOT (SELECT backlogged FROM due) AND (
              NOT EXISTS (SELECT 1 FROM timer_awaited WHERE until > now())
              OR NOT EXISTS (
                 SELECT 1
                   FROM timer_awaited AS a
                  WHERE a.tenant_id = t.tenant_id AND a.service_call_id = t.service_call_id
                   AND a.until - now() > interval '0'))
        ORDER BY due_at
        LIMIT $2
          FOR UPDATE SKIP LOCKED),
       reached AS (
       UPDATE timer_schedules AS s
          SET state = CASE WHEN s.expires_at <= $1 THEN 'Expired' ELSE 'Reached' END, reached_at = greatest($1, s.due_at)
         FROM claimed
        WHERE s.ctid = claimed.place
       RETURNING {s.columns}),
       counted AS (
       INSERT INTO timer_counts (tenant_id, scheduled, reached, expired)
       SELECT tenant_id, -count(*), count(*) FILTER (WHERE state = 'Reached'), count(*) FILTER (WHERE state = 'Expired')
         FROM reached
        GROUP BY tenant_id)
SELECT due.backlogged, {columns}
  FROM due
  LEFT JOIN reached ON true
