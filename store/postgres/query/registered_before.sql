-- Count the waiting timers, and the ones among them whose command is older than $1, and read the
-- time of the oldest such command. Reads only the timers that are due first, up to a limit. A command may
-- be handled long after it was published, so registered_at would not do. Walks
-- idx_timer_schedules_due_at and looks up each row, so it needs the limit and a deadline.
SELECT count(*),
       count(*) FILTER (WHERE command_at < $1),
       min(command_at) FILTER (WHERE command_at < $1)
  FROM (SELECT command_at
          FROM timer_schedules
         WHERE state = 'Scheduled'
         ORDER BY due_at
         LIMIT $2) AS waiting
