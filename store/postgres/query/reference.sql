-- Report whether timers refer to service_calls by the constraint $1, whether all of them do,
-- and how many of the columns that it needs service_calls has.
SELECT coalesce(bool_or(contype = 'f'), false), coalesce(bool_or(convalidated), false),
       (SELECT count(*)
          FROM pg_attribute
         WHERE attrelid = to_regclass('service_calls') AND attname IN ('tenant_id', 'service_call_id') AND NOT attisdropped)
  FROM pg_constraint
 WHERE conrelid = 'timer_schedules'::regclass AND conname = $1
