-- Due timers, the earliest of each tenant first, to be marked by mark.sql under the same
-- write lock. Walks the tenants with due timers by idx_timer_counts_next_due, and seeks
-- idx_timer_schedules_tenant_due, which holds Scheduled rows only.
SELECT s.rowid, {s.columns}
  FROM timer_counts c
 CROSS JOIN timer_schedules s
 WHERE c.next_due <= ?1
   AND s.tenant_id = c.tenant_id AND s.state = 'Scheduled' AND s.due_at <= ?1
 LIMIT +?2
