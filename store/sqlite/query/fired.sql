-- Timers of state ?2 whose events were published become Reached, unless their command
-- is more than ?3 milliseconds newer: each event is a [tenant_id, service_call_id,
-- due_at, reached_at, ...] in the JSON array ?1. Seeks the primary key.
UPDATE timer_schedules
   SET state = 'Reached',
       due_at = value ->> 2,
       reached_at = value ->> 3,
       canceled_at = NULL
  FROM json_each(?1)
 WHERE tenant_id = value ->> 0 AND service_call_id = value ->> 1
   AND state = ?2
   AND command_at <= (value ->> 3) + ?3
RETURNING tenant_id
