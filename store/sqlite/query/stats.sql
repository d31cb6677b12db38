-- Counts for operators. Scans the table: not for a hot path.
SELECT count(*) FILTER (WHERE state = 'Scheduled'),
       count(*) FILTER (WHERE state = 'Reached'),
       count(*) FILTER (WHERE state = 'Canceled'),
       min(due_at) FILTER (WHERE state = 'Scheduled'),
       (SELECT count(*) FROM timer_outbox),
       (SELECT appended_at FROM timer_outbox ORDER BY seq LIMIT 1),
       (SELECT count(*) FROM timer_outbox_parked)
  FROM timer_schedules
