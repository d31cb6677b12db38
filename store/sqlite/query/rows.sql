-- Timers that wait, by their rowids, which are a JSON array, in its order. Seeks
-- the rowid.
SELECT tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state,
       command_at, command_id, traceparent, tracestate, data
  FROM json_each(?1)
 CROSS JOIN timer_schedules
 WHERE timer_schedules.rowid = value AND state = 'Scheduled'
