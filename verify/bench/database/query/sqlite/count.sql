-- Count what was put in: ?2 timers of ?3 tenants whose names begin with ?1, a
-- tenant as many as another, but for the rest.
  WITH RECURSIVE numbers (n) AS (
       SELECT 0
        UNION ALL
       SELECT n + 1
         FROM numbers
        WHERE n < ?3 - 1)
INSERT INTO timer_counts (tenant_id, scheduled, next_due)
SELECT ?1 || n, ?2 / ?3 + (n < ?2 % ?3), (SELECT min(due_at) FROM timer_schedules WHERE tenant_id = ?1 || n AND state = 'Scheduled')
  FROM numbers
 WHERE ?2 / ?3 + (n < ?2 % ?3) > 0
    ON CONFLICT (tenant_id) DO UPDATE
   SET scheduled = scheduled + excluded.scheduled, next_due = min(coalesce(next_due, excluded.next_due), excluded.next_due)
