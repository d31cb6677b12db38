-- The earliest due time after ?1. Seeks idx_timer_schedules_due_at and reads one
-- entry.
SELECT due_at
  FROM timer_schedules
 WHERE state = 'Scheduled' AND due_at > ?1
 ORDER BY due_at
 LIMIT 1
