-- As take.sql, an event that was deferred.
  WITH event AS (
       DELETE FROM timer_outbox_deferred
        WHERE shard = $1 AND seq = $2
       RETURNING 1),
       counted AS (
       INSERT INTO timer_counts (tenant_id, outbox)
       SELECT '', -count(*)
         FROM event
       HAVING count(*) > 0)
SELECT count(*)
  FROM event
