-- The earliest due time. Reads the first entry of idx_timer_schedules_due_at.
SELECT due_at
  FROM timer_schedules
 WHERE state = 'Scheduled'
 ORDER BY due_at
 LIMIT 1
