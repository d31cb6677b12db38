-- The earliest due time after ?1, null if there is none. Seeks idx_timer_counts_next_due,
-- and idx_timer_schedules_tenant_due for each tenant with timers that are due until ?1.
SELECT min(due_at)
  FROM (SELECT (SELECT min(next_due) FROM timer_counts WHERE next_due > ?1) AS due_at
         UNION ALL
        SELECT (SELECT min(due_at) FROM timer_schedules s WHERE s.tenant_id = c.tenant_id AND s.state = 'Scheduled' AND s.due_at > ?1)
          FROM timer_counts c
         WHERE c.next_due <= ?1)
