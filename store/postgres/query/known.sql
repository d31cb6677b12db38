-- Report whether the database is empty except for numbers, and read the numbers: the last row
-- of each log and kind. Hops over timer_numbers_pkey from one to the next, backwards, since the
-- last entry is hardly ever a dead one.
WITH RECURSIVE numbers (broker, log, kind, number) AS (
     (SELECT broker, log, kind, number
        FROM timer_numbers
       ORDER BY broker DESC, log DESC, kind DESC, seq DESC
       LIMIT 1)
      UNION ALL
     SELECT next.broker, next.log, next.kind, next.number
       FROM numbers
      CROSS JOIN LATERAL (
            SELECT t.broker, t.log, t.kind, t.number
              FROM timer_numbers AS t
             WHERE (t.broker, t.log, t.kind) < (numbers.broker, numbers.log, numbers.kind)
             ORDER BY t.broker DESC, t.log DESC, t.kind DESC, t.seq DESC
             LIMIT 1) AS next)
SELECT NOT EXISTS (SELECT 1 FROM timer_schedules)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox_deferred)
       AND NOT EXISTS (SELECT 1 FROM timer_outbox_parked)
       AND NOT EXISTS (SELECT 1 FROM timer_inbox),
       numbers.broker, log, kind, number
  FROM timer_database
  LEFT JOIN numbers ON true
