-- Count the timers of all tenants, also of those that there should not be. Scans the
-- timers: it runs after damage was found.
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, next_due)
SELECT CAST(tenant_id AS TEXT),
       count(*) FILTER (WHERE state = 'Scheduled'),
       count(*) FILTER (WHERE state = 'Reached'),
       count(*) FILTER (WHERE state = 'Canceled'),
       min(due_at) FILTER (WHERE state = 'Scheduled')
  FROM timer_schedules
 WHERE CAST(tenant_id AS TEXT) <> ''
 GROUP BY 1
