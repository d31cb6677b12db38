-- Count the timers of tenant $5 that are due in each of $3 intervals of $2 ms from $1 on, up
-- to $4 in each. Seeks idx_timer_schedules_tenant_due once for each interval.
SELECT number, due
  FROM generate_series(0, $3::bigint - 1) AS number
 CROSS JOIN LATERAL (
       SELECT count(*) AS due
         FROM (SELECT 1
                 FROM timer_schedules
                WHERE state = 'Scheduled' AND tenant_id = $5
                  AND due_at >= $1::timestamptz + number * $2::bigint * interval '1 millisecond'
                  AND due_at < $1::timestamptz + (number + 1) * $2::bigint * interval '1 millisecond'
                ORDER BY tenant_id, due_at
                LIMIT $4) AS first) AS counts
