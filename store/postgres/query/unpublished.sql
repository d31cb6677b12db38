-- Read when the oldest event was appended that is not deferred. Reads the first event of each
-- shard.
WITH RECURSIVE shards (shard, appended_at) AS (
     SELECT -1::smallint, NULL::timestamptz(3)
      UNION ALL
     SELECT first.shard, first.appended_at
       FROM shards
      CROSS JOIN LATERAL (
            SELECT o.shard, o.appended_at
              FROM timer_outbox AS o
             WHERE o.shard > shards.shard
             ORDER BY o.shard, o.seq
             LIMIT 1) AS first)
SELECT min(appended_at)
  FROM shards
