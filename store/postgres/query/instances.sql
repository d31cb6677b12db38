-- How many instances there are: each holds a lock of this name while it leads a
-- shard of its own. What it asks also keeps the transaction that holds a lead.
SELECT count(*)
  FROM pg_locks
 WHERE locktype = 'advisory'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid = (hashtext('timer_instance ' || current_schema())::bigint & 4294967295)::oid
   AND granted
