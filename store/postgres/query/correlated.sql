-- Read timers of any tenant with a correlation id, for operators. Seeks
-- idx_timer_schedules_correlation_id.
SELECT {columns}
  FROM timer_schedules
 WHERE correlation_id = $1
 LIMIT $2
