-- Read the $2 newest parked events of tenant $3 before number $1. Seeks
-- idx_timer_outbox_parked_tenant.
SELECT seq, id, payload, headers, appended_at, parked_at, attempts, last_error
  FROM timer_outbox_parked
 WHERE (headers::json ->> 'tenantId') COLLATE "C" = $3 AND seq + 0 < $1
 ORDER BY (headers::json ->> 'tenantId') COLLATE "C" DESC, seq + 0 DESC
 LIMIT $2
