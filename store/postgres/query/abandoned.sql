-- List the shards of the outbox that have rows: first the shards with a row that is not
-- deferred, in any order, then the others. Hops over both primary keys with one seek for each
-- shard.
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
             LIMIT 1) AS first)
SELECT coalesce(string_agg(shard::text, ',' ORDER BY turn, random()), '')
  FROM (SELECT shard, 1 AS turn FROM shards
         UNION ALL
        SELECT shard, 2 FROM deferred) AS either
 WHERE shard >= 0
