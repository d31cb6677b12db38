-- Take the lock $1 of the schema until the transaction ends. Schemas of one database do not
-- wait for each other.
SELECT pg_advisory_xact_lock(hashtext('timer_service ' || current_schema()), $1)
