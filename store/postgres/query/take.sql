-- Delete an event that was handled, and return whether it was there, as a count. A
-- transaction that deletes the same event waits for the first one. Seeks the primary key.
  WITH event AS (
       DELETE FROM timer_outbox
        WHERE shard = $1 AND seq = $2
       RETURNING 1),
       counted AS (
       INSERT INTO timer_counts (tenant_id, outbox)
       SELECT '', -count(*)
         FROM event
       HAVING count(*) > 0)
SELECT count(*)
  FROM event
