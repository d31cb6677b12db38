-- Move an event that the broker refuses for good to the parked events. Seeks the primary key.
  WITH event AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = $2
       RETURNING seq, id, payload, headers, appended_at, attempts),
       parked AS (
       INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
       SELECT seq, id, payload, headers, appended_at, attempts + 1, $3, $4
         FROM event)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', -count(*)
  FROM event
HAVING count(*) > 0
