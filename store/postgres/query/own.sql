-- Own the first shard of the outbox that has no owner, until the transaction ends, and be
-- counted as an instance, with the kind of its receivers. Tries one lock after the other. The
-- first lock is shared by all instances. An instance that verifies or recovers the database holds
-- it exclusively: see alone.sql.
SELECT shard::integer
  FROM generate_series(0, 255) AS shard
 WHERE pg_try_advisory_xact_lock_shared(hashtext('timer_service ' || current_schema()), -3)
   AND pg_try_advisory_xact_lock(hashtext('timer_outbox ' || current_schema()), shard)
   AND pg_try_advisory_xact_lock(hashtext('timer_instance ' || current_schema()), shard + 256 * current_setting('timers.receivers')::integer)
 LIMIT 1
