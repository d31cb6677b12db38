-- How many timers wait whose command is older than a time, up to a limit. A command may be handled long after it
-- was published, so registered_at would not do. It walks all that wait: people ask it, with a deadline.
SELECT count(*)
  FROM (SELECT 1
          FROM timer_schedules
         WHERE state = 'Scheduled' AND command_at < $1
         LIMIT $2) AS older
