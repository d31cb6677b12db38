-- Own an abandoned shard of the outbox, one that has rows and no owner, until the
-- transaction ends: any one with rows that are not deferred, if there is one, else any
-- other one. None while no instance shares the database: see own.sql. Hops over both
-- primary keys with a seek a shard.
WITH RECURSIVE shards (shard) AS (
     SELECT -1::smallint
      UNION ALL
     SELECT first.shard
       FROM shards
      CROSS JOIN LATERAL (
            SELECT o.shard
              FROM timer_outbox AS o
             WHERE o.shard > shards.shard
             ORDER BY o.shard, o.seq
             LIMIT 1) AS first),
     deferred (shard) AS (
     SELECT -1::smallint
      UNION ALL
     SELECT first.shard
       FROM deferred
      CROSS JOIN LATERAL (
            SELECT o.shard
              FROM timer_outbox_deferred AS o
             WHERE o.shard > deferred.shard
             ORDER BY o.shard, o.seq
             LIMIT 1) AS first),
     all_shards (shard) AS MATERIALIZED (
     SELECT shard
       FROM (SELECT shard, 1 AS turn FROM shards
              UNION ALL
             SELECT shard, 2 FROM deferred) AS either
      ORDER BY turn, random())
SELECT shard::integer
  FROM all_shards
 WHERE shard >= 0
   AND EXISTS (
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
