-- Be the one instance that recovers the database, until the transaction ends: a row if
-- no other one is.
SELECT 1
 WHERE pg_try_advisory_xact_lock(hashtext('timer_service ' || current_schema()), -3)
