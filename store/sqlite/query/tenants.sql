-- Tenants after ?2 with timers that are due, in order. Walks the tenants; rows come as
-- they are found.
SELECT tenant_id
  FROM timer_counts
 WHERE tenant_id > ?2 AND +next_due <= ?1
 ORDER BY tenant_id
