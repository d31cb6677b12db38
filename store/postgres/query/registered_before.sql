-- How many timers wait, of them those whose command is older than a time, and the oldest such command; of many
-- timers only those are looked at that are due first. A command may be handled long after it was published, so
-- registered_at would not do. Walks idx_timer_schedules_due_at and looks up each row, so it has a limit and a deadline.
SELECT count(*),
       count(*) FILTER (WHERE command_at < $1),
       min(command_at) FILTER (WHERE command_at < $1)
  FROM (SELECT command_at
          FROM timer_schedules
         WHERE state = 'Scheduled'
         ORDER BY due_at
         LIMIT $2) AS waiting
