-- Count messages of tenant ?1 by reason. Walks idx_timer_inbox_retry, which has all that it
-- needs.
SELECT tenant_id,
       count(*) FILTER (WHERE reason = 'over_quota'), coalesce(sum(bytes) FILTER (WHERE reason = 'over_quota'), 0), min(arrived_at) FILTER (WHERE reason = 'over_quota'),
       count(*) FILTER (WHERE reason = 'failed'), coalesce(sum(bytes) FILTER (WHERE reason = 'failed'), 0), min(arrived_at) FILTER (WHERE reason = 'failed')
  FROM timer_inbox
 WHERE retry_at IS NOT NULL AND tenant_id = ?1
 GROUP BY tenant_id
