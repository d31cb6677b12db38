-- Timers of state ?1 whose events were published become Reached, unless their command
-- is more than ?2 milliseconds newer. VALUES is repeated for each event of a batch, of
-- other keys. Seeks the primary key.
  WITH settings (state, keep) AS (SELECT ?, ?),
       event (tenant_id, service_call_id, due_at, reached_at) AS (
       VALUES (?, ?, ?, ?))
UPDATE timer_schedules AS t
   SET state = 'Reached',
       due_at = event.due_at,
       reached_at = event.reached_at,
       canceled_at = NULL
  FROM event, settings
 WHERE t.tenant_id = event.tenant_id AND t.service_call_id = event.service_call_id
   AND t.state = settings.state
   AND t.command_at <= event.reached_at + settings.keep
RETURNING tenant_id
