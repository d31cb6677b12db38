-- At most ?2 tenants with timers that are due. Seeks idx_timer_counts_next_due.
SELECT tenant_id
  FROM timer_counts
 WHERE next_due <= ?1
 LIMIT +?2
