-- Take the database exclusively, to verify and recover it, until the transaction ends.
-- Returns 0 if no instance runs on it, 1 if some do, which share the lock (see own.sql), and
-- 2 if another instance has it exclusively. Waits for no lock.
SELECT CASE
       WHEN pg_try_advisory_xact_lock(hashtext('timer_service ' || current_schema()), -3)
       THEN 0
       WHEN EXISTS (
            SELECT 1
              FROM pg_locks
             WHERE locktype = 'advisory'
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND classid = (hashtext('timer_service ' || current_schema())::bigint & 4294967295)::oid
               AND objid = (-3::bigint & 4294967295)::oid
               AND mode = 'ShareLock'
               AND granted)
       THEN 1
       ELSE 2
       END
