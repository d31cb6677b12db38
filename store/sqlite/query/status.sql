-- The status of the timers of keys, a JSON array, each with the number of its key. Seeks
-- the primary key for each.
SELECT wanted.key, timer.state, timer.command_at, timer.command_id
  FROM jsonb_each(?1) AS wanted
 CROSS JOIN timer_schedules AS timer
 WHERE timer.tenant_id = wanted.value ->> 'tenant_id' AND timer.service_call_id = wanted.value ->> 'service_call_id'
