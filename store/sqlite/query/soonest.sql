-- The next ?4 timers of tenant ?5 that are due before ?1, after the one of due time ?2
-- and rowid ?3: those of the same due time and those behind. Seeks
-- idx_timer_schedules_tenant_due twice, which has them in this order.
SELECT *
  FROM (SELECT due_at, rowid
          FROM timer_schedules
         WHERE state = 'Scheduled' AND tenant_id = ?5 AND due_at = ?2 AND due_at < ?1 AND rowid > ?3
         ORDER BY due_at, rowid
         LIMIT ?4)
 UNION ALL
SELECT *
  FROM (SELECT due_at, rowid
          FROM timer_schedules
         WHERE state = 'Scheduled' AND tenant_id = ?5 AND due_at > ?2 AND due_at < ?1
         ORDER BY due_at, rowid
         LIMIT ?4)
 LIMIT ?4
