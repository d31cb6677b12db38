-- Find the next due time of each tenant again, where it is not the one that is kept.
-- Walks all tenants, with a seek each.
UPDATE timer_counts
   SET next_due = (SELECT min(due_at) FROM timer_schedules s WHERE s.tenant_id = timer_counts.tenant_id AND s.state = 'Scheduled')
 WHERE next_due IS NOT (SELECT min(due_at) FROM timer_schedules s WHERE s.tenant_id = timer_counts.tenant_id AND s.state = 'Scheduled')
