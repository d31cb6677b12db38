-- Whether the next due time that is kept for a tenant is not the one of its timers.
-- Walks all tenants, with a seek each.
SELECT EXISTS (
       SELECT 1
         FROM timer_counts
        WHERE next_due IS NOT (SELECT min(due_at) FROM timer_schedules s WHERE s.tenant_id = timer_counts.tenant_id AND s.state = 'Scheduled'))
