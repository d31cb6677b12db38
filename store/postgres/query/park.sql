-- Keep an event that the broker refuses for good, out of the way. Seeks both
-- primary keys.
  WITH gone AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = $2
       RETURNING seq, id, payload, headers, appended_at, attempts),
       gone_deferred AS (
       DELETE FROM timer_outbox_deferred
        WHERE shard = $1 AND seq = $2
       RETURNING seq, id, payload, headers, appended_at, attempts),
       event AS (
       SELECT * FROM gone
        UNION ALL
       SELECT * FROM gone_deferred),
       parked AS (
       INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
       SELECT seq, id, payload, headers, appended_at, attempts + 1, $3, $4
         FROM event)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM event
HAVING count(*) > 0
