-- Of the first rows, how many these are, in how many a timer waits whose command is older than a time, and the oldest
-- such command. A command may be handled long after it was published, so registered_at would not do. Walks the table
-- from its oldest rows on: a million take 0.9 s, and 10 s by idx_timer_schedules_due_at (measured 2026-11).
SELECT count(*),
       count(*) FILTER (WHERE state = 'Scheduled' AND command_at < ?1),
       min(command_at) FILTER (WHERE state = 'Scheduled' AND command_at < ?1)
  FROM (SELECT state, command_at
          FROM timer_schedules
         ORDER BY rowid
         LIMIT ?2)
