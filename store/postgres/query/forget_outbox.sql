-- Delete the first $3 events of tenant $1 from the outbox, of any shard, that were appended
-- until $2, and return a row of no columns for each. Reads the outbox: an index of tenants would
-- slow down every event.
  WITH first AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_outbox
        WHERE (headers::json ->> 'tenantId') = $1 AND appended_at <= $2
        LIMIT $3
          FOR UPDATE),
       gone AS (
       DELETE FROM timer_outbox AS o
        USING first
        WHERE o.ctid = first.place
       RETURNING 1),
       counted AS (
       INSERT INTO timer_counts (tenant_id, outbox)
       SELECT '', -count(*)
         FROM gone
       HAVING count(*) > 0)
SELECT
  FROM gone
