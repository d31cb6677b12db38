-- The counts of a tenant. Seeks the primary key.
SELECT scheduled, reached, expired, canceled
  FROM timer_counts
 WHERE tenant_id = ?1
