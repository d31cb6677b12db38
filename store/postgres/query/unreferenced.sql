-- Count the timers that have no service call. It reads both tables, and runs only once,
-- before the foreign key holds.
SELECT count(*)
  FROM timer_schedules AS t
 WHERE NOT EXISTS (
       SELECT 1
         FROM service_calls AS p
        WHERE p.tenant_id = t.tenant_id AND p.service_call_id = t.service_call_id)
