-- Claim timers as reach.sql does, for the tenants in $2, of each up to the number in $3.
-- Seeks idx_timer_schedules_tenant_due between $4 and $1. No other index can serve the
-- tenants in an array in this order. If the columns were compared as rows, the index would be
-- read on through all waiting timers of the tenant.
  WITH claimed AS MATERIALIZED (
       SELECT place
         FROM unnest($2::text[], $3::bigint[]) AS share (tenant_id, n)
        CROSS JOIN LATERAL (
              SELECT ctid AS place
                FROM timer_schedules AS t
               WHERE t.state = 'Scheduled' AND t.tenant_id = ANY (ARRAY[share.tenant_id]) AND t.due_at BETWEEN $4 AND $1 AND (
                     NOT EXISTS (SELECT 1 FROM timer_awaited WHERE until > now())
                     OR NOT EXISTS (
                        SELECT 1
                          FROM timer_awaited AS a
                         WHERE a.tenant_id = t.tenant_id AND a.service_call_id = t.service_call_id
                          AND a.until - now() > interval '0'))
               ORDER BY t.tenant_id, t.due_at
               LIMIT share.n
                 FOR UPDATE SKIP LOCKED) AS due),
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
SELECT true, {columns}
  FROM reached
