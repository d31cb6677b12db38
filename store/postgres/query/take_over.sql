-- Own an abandoned shard of the outbox, one that has rows and no owner, until the
-- transaction ends: any of those with rows that are not deferred, if there is one, else
-- any of the others. Hops over both primary keys with a seek a shard.
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
   AND pg_try_advisory_xact_lock(hashtext('timer_outbox ' || current_schema()), shard)
 LIMIT 1
