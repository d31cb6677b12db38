-- Tenants with timers that are due before ?1, the one with the earliest first, and its
-- due time. Walks idx_timer_counts_next_due; rows come as they are found.
SELECT tenant_id, next_due
  FROM timer_counts
 WHERE next_due < ?1
 ORDER BY next_due
