-- Find the next due time again of the tenants whose timers are said to be due at ?1. Seeks
-- idx_timer_counts_next_due.
UPDATE timer_counts
   SET next_due = (SELECT min(due_at) FROM timer_schedules s WHERE s.tenant_id = timer_counts.tenant_id AND s.state = 'Scheduled')
 WHERE next_due <= ?1
