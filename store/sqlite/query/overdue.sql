-- Count the timers of all tenants that are due before ?1, up to ?2, and read the earliest due time.
-- Walks the tenants with due timers by idx_timer_counts_next_due, and ?2 entries of
-- idx_timer_schedules_tenant_due.
SELECT count(*), (SELECT min(next_due) FROM timer_counts WHERE next_due < ?1)
  FROM (SELECT 1
          FROM timer_counts c
         CROSS JOIN timer_schedules s
         WHERE c.next_due < ?1
           AND s.tenant_id = c.tenant_id AND s.state = 'Scheduled' AND s.due_at < ?1
         LIMIT ?2)
