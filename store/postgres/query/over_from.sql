-- Read the next $3 finished timers, behind the one of time $1 and place $2. Seeks
-- idx_timer_schedules_over, which has timers of one time in the order of their places.
SELECT ctid, {columns}
  FROM timer_schedules
 WHERE state <> 'Scheduled' AND coalesce(reached_at, canceled_at) >= $1
   AND (coalesce(reached_at, canceled_at) > $1 OR ctid > $2)
 ORDER BY coalesce(reached_at, canceled_at)
 LIMIT $3
