-- The next ?2 damaged rows behind number ?1. Seeks the rowid.
SELECT seq, coalesce(CAST(tenant_id AS TEXT), ''), coalesce(CAST(service_call_id AS TEXT), ''), CAST(due_at AS INTEGER),
       coalesce(CAST(command_at AS INTEGER), 0), coalesce(CAST(command_id AS TEXT), ''), found_at
  FROM timer_damaged
 WHERE seq > ?1
 ORDER BY seq
 LIMIT ?2
