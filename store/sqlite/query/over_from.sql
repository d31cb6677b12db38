-- The next ?3 timers that are over, behind the one of time ?1 and rowid ?2. Seeks
-- idx_timer_schedules_over, which has them in this order.
SELECT rowid, {columns}
  FROM timer_schedules
 WHERE state <> 'Scheduled' AND coalesce(reached_at, canceled_at) >= ?1
   AND (coalesce(reached_at, canceled_at) > ?1 OR rowid > ?2)
 ORDER BY coalesce(reached_at, canceled_at), rowid
 LIMIT ?3
