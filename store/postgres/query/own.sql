-- Own the first shard of the outbox that has no owner, until the transaction ends,
-- and be counted as an instance. Tries one lock after the other.
SELECT shard::integer
  FROM generate_series(0, 255) AS shard
 WHERE pg_try_advisory_xact_lock(hashtext('timer_outbox ' || current_schema()), shard)
   AND pg_try_advisory_xact_lock(hashtext('timer_instance ' || current_schema()), shard)
 LIMIT 1
