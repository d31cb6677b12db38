-- Read the highest number of a waiting event, or 0. Seeks both primary keys for each shard,
-- and the last parked event.
SELECT coalesce(greatest(
       (SELECT max(last.seq)
          FROM generate_series(0, 255) AS shards (shard)
         CROSS JOIN LATERAL (
               SELECT o.seq FROM timer_outbox AS o WHERE o.shard = shards.shard::smallint ORDER BY o.shard DESC, o.seq DESC LIMIT 1) AS last),
       (SELECT max(last.seq)
          FROM generate_series(-1, 255) AS shards (shard)
         CROSS JOIN LATERAL (
               SELECT o.seq FROM timer_outbox_deferred AS o WHERE o.shard = shards.shard::smallint ORDER BY o.shard DESC, o.seq DESC LIMIT 1) AS last),
       (SELECT seq FROM timer_outbox_parked ORDER BY seq DESC LIMIT 1)), 0)
