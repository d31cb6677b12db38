-- Count the timers of tenant ?3 that are due before ?1, up to ?2, and read the earliest due
-- time. Seeks idx_timer_schedules_tenant_due.
SELECT count(*), min(due_at)
  FROM (SELECT due_at
          FROM timer_schedules
         WHERE state = 'Scheduled' AND tenant_id = ?3 AND due_at < ?1
         ORDER BY due_at
         LIMIT ?2)
