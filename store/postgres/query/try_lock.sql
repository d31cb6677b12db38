-- As lock.sql, unless somebody has it: then it says so.
SELECT pg_try_advisory_xact_lock(hashtext('timer_service ' || current_schema()), $1)
