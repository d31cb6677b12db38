-- Read the positions in each log of the broker. Hops over both indexes from log to log,
-- backwards, since the last entry of a log is hardly ever a dead one.
WITH RECURSIVE logs (log, done) AS (
     (SELECT log, done
        FROM timer_positions
       ORDER BY log DESC, done DESC
       LIMIT 1)
      UNION ALL
     SELECT next.log, next.done
       FROM logs
      CROSS JOIN LATERAL (
            SELECT t.log, t.done
              FROM timer_positions AS t
             WHERE t.log < logs.log
             ORDER BY t.log DESC, t.done DESC
             LIMIT 1) AS next)
SELECT log, done, (SELECT t.seen FROM timer_positions AS t WHERE t.log = logs.log ORDER BY t.log DESC, t.seen DESC LIMIT 1)
  FROM logs
