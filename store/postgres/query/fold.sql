-- Fold at most $1 rows of counts into the rows of their tenants, and into the row of all
-- tenants, and return how many rows. Folded rows that become zero are deleted. Only the
-- holder of the lock changes folded rows, so they stay as they are read here. Reads
-- idx_timer_counts_fresh and seeks idx_timer_counts_folded.
  WITH fresh AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_counts
        WHERE NOT folded
        LIMIT $1),
       gone AS (
       DELETE FROM timer_counts AS c
        USING fresh
        WHERE c.ctid = fresh.place
       RETURNING c.tenant_id, c.scheduled, c.reached, c.expired, c.canceled, c.outbox),
       sums AS MATERIALIZED (
       SELECT tenant_id, sum(scheduled) AS scheduled, sum(reached) AS reached, sum(expired) AS expired, sum(canceled) AS canceled, sum(outbox) AS outbox
         FROM (SELECT * FROM gone
                UNION ALL
               SELECT '', scheduled, reached, expired, canceled, outbox FROM gone WHERE tenant_id <> '') AS differences
        GROUP BY tenant_id),
       totals AS MATERIALIZED (
       SELECT sums.tenant_id, before.place,
              sums.scheduled + coalesce(before.scheduled, 0) AS scheduled, sums.reached + coalesce(before.reached, 0) AS reached,
              sums.expired + coalesce(before.expired, 0) AS expired, sums.canceled + coalesce(before.canceled, 0) AS canceled, sums.outbox + coalesce(before.outbox, 0) AS outbox
         FROM sums
         LEFT JOIN LATERAL (
              SELECT ctid AS place, scheduled, reached, expired, canceled, outbox
                FROM timer_counts AS c
               WHERE c.folded AND c.tenant_id = sums.tenant_id
              OFFSET 0) AS before ON true),
       empty AS (
       DELETE FROM timer_counts AS c
        USING totals
        WHERE c.ctid = totals.place
          AND totals.scheduled = 0 AND totals.reached = 0 AND totals.expired = 0 AND totals.canceled = 0 AND totals.outbox = 0),
       summed AS (
       INSERT INTO timer_counts (tenant_id, scheduled, reached, expired, canceled, outbox, folded)
       SELECT tenant_id, scheduled, reached, expired, canceled, outbox, true
         FROM totals
        WHERE NOT (scheduled = 0 AND reached = 0 AND expired = 0 AND canceled = 0 AND outbox = 0)
           ON CONFLICT (tenant_id) WHERE folded DO UPDATE
          SET scheduled = excluded.scheduled,
              reached = excluded.reached,
              expired = excluded.expired,
              canceled = excluded.canceled,
              outbox = excluded.outbox)
SELECT count(*)
  FROM fresh
