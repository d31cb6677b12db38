-- As lock.sql, unless another has it: then it returns false.
SELECT pg_try_advisory_xact_lock(hashtext('timer_service ' || current_schema()), $1)
