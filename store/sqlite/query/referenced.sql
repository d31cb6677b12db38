-- Whether timers refer to service calls. Reads the schema.
SELECT count(*) > 0
  FROM pragma_foreign_key_list('timer_schedules')
 WHERE "table" = 'service_calls'
