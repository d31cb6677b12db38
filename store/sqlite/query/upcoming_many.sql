-- In which interval of ?2 from ?1 on each timer of all tenants is due, before ?3, up to ?4
-- timers; none unless more than 500 tenants have timers that are due before ?3. Walks the
-- tenants by idx_timer_counts_next_due, and seeks idx_timer_schedules_tenant_due once for
-- each.
SELECT (s.due_at - ?1) / ?2
  FROM timer_counts c
 CROSS JOIN timer_schedules s
 WHERE EXISTS (SELECT 1 FROM timer_counts WHERE next_due < ?3 LIMIT 1 OFFSET 500)
   AND c.next_due < ?3
   AND s.tenant_id = c.tenant_id AND s.state = 'Scheduled' AND s.due_at >= ?1 AND s.due_at < ?3
 LIMIT ?4
