-- Own the first of the shards in timers.abandoned that has no owner, until the transaction
-- ends. Owns none while no instance shares the database: see own.sql. Reads no table of ours:
-- a change to such a table would wait for the end of this transaction, and all other
-- statements would wait behind the change.
SELECT shard
  FROM unnest(string_to_array(current_setting('timers.abandoned'), ',')::integer[]) WITH ORDINALITY AS abandoned (shard, place)
 WHERE EXISTS (
       SELECT 1
         FROM pg_locks
        WHERE locktype = 'advisory'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND classid = (hashtext('timer_service ' || current_schema())::bigint & 4294967295)::oid
          AND objid = (-3::bigint & 4294967295)::oid
          AND mode = 'ShareLock'
          AND granted)
   AND pg_try_advisory_xact_lock(hashtext('timer_outbox ' || current_schema()), shard)
 LIMIT 1
