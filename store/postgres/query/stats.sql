-- Read the counts of all tenants and the oldest events. Adds the folded row of all tenants
-- and the rows that are not folded yet. Reads the first entry of idx_timer_schedules_due_at,
-- and the first event of each shard, deferred and not, but for snoozed ones, whose handler wants them
-- later. Parked events are counted one by one:
-- they are few, since an operator handles them.
WITH RECURSIVE shards (shard, appended_at, id) AS (
     SELECT -1::smallint, NULL::timestamptz(3), NULL::text COLLATE "C"
      UNION ALL
     SELECT first.shard, first.appended_at, first.id
       FROM shards
      CROSS JOIN LATERAL (
            SELECT o.shard, o.appended_at, o.id
              FROM timer_outbox AS o
             WHERE o.shard > shards.shard
             ORDER BY o.shard, o.seq
             LIMIT 1) AS first),
     deferred (shard, appended_at, id) AS (
     SELECT -2::smallint, NULL::timestamptz(3), NULL::text COLLATE "C"
      UNION ALL
     SELECT first.shard, first.appended_at, first.id
       FROM deferred
      CROSS JOIN LATERAL (
            SELECT o.shard, o.appended_at, o.id
              FROM timer_outbox_deferred AS o
             WHERE o.shard > deferred.shard AND o.destination < '~'
             ORDER BY o.shard, o.seq
             LIMIT 1) AS first)
SELECT coalesce(sum(scheduled), 0)::bigint, coalesce(sum(reached), 0)::bigint, coalesce(sum(expired), 0)::bigint,
       coalesce(sum(canceled), 0)::bigint, coalesce(sum(outbox), 0)::bigint,
       (SELECT due_at
          FROM timer_schedules
         WHERE state = 'Scheduled'
         ORDER BY due_at
         LIMIT 1),
       least((SELECT min(appended_at) FROM shards), (SELECT min(appended_at) FROM deferred)),
       coalesce(least((SELECT min(id) FROM shards), (SELECT min(id) FROM deferred)), ''),
       (SELECT count(*) FROM (SELECT seq FROM timer_outbox_parked ORDER BY seq) AS parked)
  FROM (SELECT scheduled, reached, expired, canceled, outbox
          FROM timer_counts
         WHERE folded AND tenant_id = ''
         UNION ALL
        SELECT scheduled, reached, expired, canceled, outbox
          FROM timer_counts
         WHERE NOT folded) AS counts
