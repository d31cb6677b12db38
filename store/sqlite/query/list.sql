-- A page of a tenant's timers, from the last of the page before to ?3, before ?9. Seeks
-- the primary key.
SELECT {columns}
  FROM timer_schedules
 WHERE tenant_id = ?1 AND service_call_id > ?2 AND service_call_id < ?9
   AND (?3 IS NULL OR service_call_id <= ?3)
   AND (?4 IS NULL OR state = ?4)
   AND (?5 IS NULL OR due_at >= ?5)
   AND (?6 IS NULL OR due_at < ?6)
   AND (?7 IS NULL OR +correlation_id = ?7)
 ORDER BY service_call_id
 LIMIT ?8
