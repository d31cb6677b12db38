-- Take a lock of the schema's own until the transaction ends: $1 says which.
-- Schemas of one database do not wait for each other.
SELECT pg_advisory_xact_lock(hashtext('timer_service ' || current_schema()), $1)
