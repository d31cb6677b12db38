-- Whether more timers are due than a batch of ?2 holds. Walks the tenants with due
-- timers by idx_timer_counts_next_due, and ?2 entries of idx_timer_schedules_tenant_due.
SELECT EXISTS (
       SELECT 1
         FROM timer_counts c
        CROSS JOIN timer_schedules s
        WHERE c.next_due <= ?1
          AND s.tenant_id = c.tenant_id AND s.state = 'Scheduled' AND s.due_at <= ?1
        LIMIT 1 OFFSET +?2)
