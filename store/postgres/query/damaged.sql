-- The next $2 damaged rows behind number $1. Seeks the primary key.
SELECT seq, coalesce(tenant_id, ''), coalesce(service_call_id, ''), due_at, coalesce(command_at, 0), coalesce(command_id, ''), found_at
  FROM timer_damaged
 WHERE seq > $1
 ORDER BY seq
 LIMIT $2
