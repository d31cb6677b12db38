-- List the tenants after ?2 that have timers due, in order. Walks the tenants; rows come as
-- they are found.
SELECT tenant_id
  FROM timer_counts
 WHERE tenant_id > ?2 AND +next_due <= ?1
 ORDER BY tenant_id
