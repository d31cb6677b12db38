-- As due.sql, for one tenant. Seeks idx_timer_schedules_tenant_due.
SELECT rowid, {columns}
  FROM timer_schedules
 WHERE state = 'Scheduled' AND tenant_id = ?3 AND due_at <= ?1
 ORDER BY due_at
 LIMIT +?2
