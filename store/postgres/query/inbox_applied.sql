-- Read the selections of tenant $1 that were applied. Seeks idx_timer_inbox_applied.
SELECT {inbox}
  FROM timer_inbox
 WHERE tenant_id = $1 AND retry_at IS NULL
 ORDER BY tenant_id, seq
