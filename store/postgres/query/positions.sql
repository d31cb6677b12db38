-- Read the positions in each log of the broker. Hops over both indexes from log to log,
-- backwards, since the last entry of a log is hardly ever a dead one.
WITH RECURSIVE logs (log, committed) AS (
     (SELECT log, committed
        FROM timer_positions
       ORDER BY log DESC, committed DESC
       LIMIT 1)
      UNION ALL
     SELECT next.log, next.committed
       FROM logs
      CROSS JOIN LATERAL (
            SELECT t.log, t.committed
              FROM timer_positions AS t
             WHERE t.log < logs.log
             ORDER BY t.log DESC, t.committed DESC
             LIMIT 1) AS next)
SELECT log, committed, (SELECT t.observed FROM timer_positions AS t WHERE t.log = logs.log ORDER BY t.log DESC, t.observed DESC LIMIT 1)
  FROM logs
