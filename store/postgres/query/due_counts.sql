-- Count by tenant the first $2 due timers, from due time $3 on. Walks $2 entries of
-- idx_timer_schedules_due_at.
SELECT tenant_id, count(*)
  FROM (SELECT tenant_id
          FROM timer_schedules
         WHERE state = 'Scheduled' AND due_at BETWEEN $3 AND $1
         ORDER BY due_at
         LIMIT $2) AS due
 GROUP BY tenant_id
