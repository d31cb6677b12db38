-- An event that was handled, by its number, deferred or not: the number of events that
-- were there. A transaction that takes the same one waits for the first. $1 are all
-- shards, since it may have changed its owner. Seeks both primary keys.
  WITH gone AS (
       DELETE FROM timer_outbox
        WHERE shard = ANY ($1::smallint[]) AND seq = $2
       RETURNING 1),
       gone_deferred AS (
       DELETE FROM timer_outbox_deferred
        WHERE shard = ANY ($1::smallint[]) AND seq = $2
       RETURNING 1),
       event AS (
       SELECT FROM gone
        UNION ALL
       SELECT FROM gone_deferred),
       counted AS (
       INSERT INTO timer_counts (tenant_id, outbox)
       SELECT '', -count(*)
         FROM event
       HAVING count(*) > 0)
SELECT count(*)
  FROM event
