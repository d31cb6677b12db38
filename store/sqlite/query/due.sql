-- The earliest due timers, to be marked by mark.sql under the same write lock.
-- Seeks idx_timer_schedules_due_at, which holds Scheduled rows only. The checksum comes
-- first: until a column is read that the index does not have, SQLite takes those that it
-- has from there, and not from the row.
SELECT rowid, checksum, tenant_id, service_call_id, correlation_id, due_at, registered_at,
       command_at, command_id, traceparent, tracestate, data
  FROM timer_schedules
 WHERE state = 'Scheduled' AND due_at <= ?1
 ORDER BY due_at
 LIMIT +?2
