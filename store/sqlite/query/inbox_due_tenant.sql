-- Read the first ?3 messages of tenant ?1 that are due at ?2. Seeks idx_timer_inbox_retry.
SELECT {inbox}
  FROM timer_inbox
 WHERE tenant_id = ?1 AND retry_at <= ?2
 ORDER BY retry_at, seq
 LIMIT +?3
