-- Take a lock as lock.sql does, or return false if another transaction has it.
SELECT pg_try_advisory_xact_lock(hashtext('timer_service ' || current_schema()), $1)
