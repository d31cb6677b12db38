-- Report whether the database is empty except for numbers, and read the numbers.
SELECT NOT EXISTS (SELECT 1 FROM timer_schedules)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox_deferred)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox_parked)
       AND NOT EXISTS (SELECT 1 FROM timer_inbox),
       broker, log, kind, number
  FROM timer_database
  LEFT JOIN timer_numbers ON log <> ''
 ORDER BY broker, log, kind
