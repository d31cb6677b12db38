-- How many timers of all tenants are due in each of ?3 intervals of ?2 from ?1 on, up
-- to ?4 in each. Seeks idx_timer_schedules_tenant_due once for each, and each tenant with
-- timers that are due before its end.
WITH RECURSIVE intervals (number, since) AS (
     SELECT 0, ?1
      UNION ALL
     SELECT number + 1, since + ?2
       FROM intervals
      WHERE number < ?3 - 1)
SELECT number,
       (SELECT count(*)
          FROM (SELECT 1
                  FROM timer_counts c
                 CROSS JOIN timer_schedules s
                 WHERE c.next_due < since + ?2
                   AND s.tenant_id = c.tenant_id AND s.state = 'Scheduled' AND s.due_at >= since AND s.due_at < since + ?2
                 LIMIT ?4))
  FROM intervals
