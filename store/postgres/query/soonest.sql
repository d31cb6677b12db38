-- Read the next $4 timers of all tenants that are due before $1, after the one of due time $2
-- and place $3. Seeks idx_timer_schedules_due_at, which has timers of one due time in the
-- order of their places.
SELECT ctid, {columns}
  FROM timer_schedules
 WHERE state = 'Scheduled' AND due_at < $1 AND due_at >= $2 AND (due_at > $2 OR ctid > $3)
 ORDER BY due_at
 LIMIT $4
