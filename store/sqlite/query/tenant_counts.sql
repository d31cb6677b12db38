-- The counts of the next ?2 tenants after ?1 that have timers. Seeks the primary
-- key.
SELECT tenant_id, scheduled, reached, expired, canceled
  FROM timer_counts
 WHERE tenant_id > ?1
   AND (scheduled > 0 OR reached > 0 OR expired > 0 OR canceled > 0)
 ORDER BY tenant_id
 LIMIT ?2
