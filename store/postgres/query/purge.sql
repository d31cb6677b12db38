-- Forget at most $2 timers that were over before $1, the oldest first. What
-- another transaction is changing is left alone. A trigger counts them.
-- Seeks idx_timer_schedules_over and fetches each row by its place.
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
