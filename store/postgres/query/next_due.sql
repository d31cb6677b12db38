-- The earliest due time after $1, and not before $2. Seeks
-- idx_timer_schedules_due_at and reads one entry.
SELECT due_at
  FROM timer_schedules
 WHERE state = 'Scheduled' AND due_at > $1 AND due_at >= $2
 ORDER BY due_at
 LIMIT 1
