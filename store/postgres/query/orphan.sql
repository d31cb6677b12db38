-- Lead the first shard of the outbox that has rows and that nobody leads, until
-- the transaction ends. Hops over the primary key with a seek a shard.
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
             LIMIT 1) AS first)
SELECT shard::integer
  FROM shards
 WHERE shard >= 0
   AND pg_try_advisory_xact_lock(hashtext('timer_outbox ' || current_schema()), shard)
 LIMIT 1
