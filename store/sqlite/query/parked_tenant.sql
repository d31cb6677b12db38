-- The ?2 newest parked events of tenant ?3 before number ?1. Seeks
-- idx_timer_outbox_parked_tenant.
SELECT seq, id, payload, headers, appended_at, parked_at, attempts, last_error
  FROM timer_outbox_parked
 WHERE headers ->> '$.tenantId' = ?3 AND seq < ?1
 ORDER BY seq DESC
 LIMIT ?2
