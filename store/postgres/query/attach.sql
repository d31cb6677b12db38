-- Use the database with the broker $1, named $2, unless instances run and all of them use
-- another one. With $3, use it in any case. Instances hold locks: see own.sql.
UPDATE timer_database
   SET broker = $1, broker_name = $2
 WHERE broker IS NULL
    OR broker = $1
    OR $3
    OR NOT EXISTS (
       SELECT 1
         FROM pg_locks
        WHERE locktype = 'advisory'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND classid = (hashtext('timer_instance ' || current_schema())::bigint & 4294967295)::oid
          AND granted)
