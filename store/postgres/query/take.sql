-- An event that was handled: the number of events that were there. A transaction that
-- takes the same one waits for the first. Seeks the primary key.
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
