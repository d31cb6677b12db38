-- Count the instances. Each holds a lock of this name while it owns a shard. The statement
-- also is the heartbeat of the transaction that holds the lease.
SELECT count(*)
  FROM pg_locks
 WHERE locktype = 'advisory'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid = (hashtext('timer_instance ' || current_schema())::bigint & 4294967295)::oid
   AND granted
