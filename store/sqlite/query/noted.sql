-- Report whether the database is empty except for positions, and read the positions.
SELECT NOT EXISTS (SELECT 1 FROM timer_schedules)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox_deferred)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox_parked),
       log, committed, observed
  FROM timer_database
  LEFT JOIN timer_positions
 ORDER BY log
