-- Read one timer. Seeks the primary key.
SELECT {columns}
  FROM timer_schedules
 WHERE tenant_id = $1 AND service_call_id = $2
