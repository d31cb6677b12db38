-- Find the last service call of a walk over ?3 timers of a tenant. No row if there are fewer.
-- Seeks the primary key.
SELECT service_call_id
  FROM timer_schedules
 WHERE tenant_id = ?1 AND service_call_id > ?2 AND service_call_id < ?4
 ORDER BY service_call_id
 LIMIT 1 OFFSET ?3 - 1
