-- Delete at most $2 timers that were finished before $1, the oldest first. Skips timers that
-- another transaction is changing. A trigger counts the deleted timers. Seeks
-- idx_timer_schedules_over and fetches each row by its place.
  WITH over AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_schedules
        WHERE state <> 'Scheduled' AND coalesce(reached_at, canceled_at) < $1
        ORDER BY coalesce(reached_at, canceled_at)
        LIMIT $2
          FOR UPDATE SKIP LOCKED)
DELETE FROM timer_schedules AS t
 USING over
 WHERE t.ctid = over.place
