-- Delete published events from the outbox by their ids $1, deferred or not, in any shard.
-- Reads the whole outbox: an index of ids would slow down every event.
  WITH published AS MATERIALIZED (
       SELECT unnest($1::text[]) AS id),
       gone AS (
       DELETE FROM timer_outbox
        WHERE id IN (SELECT id FROM published)
       RETURNING 1),
       gone_deferred AS (
       DELETE FROM timer_outbox_deferred
        WHERE id IN (SELECT id FROM published)
       RETURNING 1)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM (SELECT FROM gone UNION ALL SELECT FROM gone_deferred) AS events
HAVING count(*) > 0
