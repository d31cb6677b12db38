-- Read the selections of tenant $1 that were applied, behind seq $2. Seeks idx_timer_inbox_applied.
SELECT {inbox}
  FROM timer_inbox
 WHERE tenant_id = $1 AND retry_at IS NULL AND seq > $2
 ORDER BY tenant_id, seq
