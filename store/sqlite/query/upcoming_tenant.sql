-- How many timers of tenant ?5 are due in each of ?3 intervals of ?2 from ?1 on, up
-- to ?4 in each. Seeks idx_timer_schedules_tenant_due once for each.
WITH RECURSIVE intervals (number, since) AS (
     SELECT 0, ?1
      UNION ALL
     SELECT number + 1, since + ?2
       FROM intervals
      WHERE number < ?3 - 1)
SELECT number,
       (SELECT count(*)
          FROM (SELECT 1
                  FROM timer_schedules
                 WHERE state = 'Scheduled' AND tenant_id = ?5 AND due_at >= since AND due_at < since + ?2
                 LIMIT ?4))
  FROM intervals
