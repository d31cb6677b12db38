-- Delete the ?2 timers that finished first, if that was before ?1. Seeks
-- idx_timer_schedules_over.
DELETE FROM timer_schedules
 WHERE rowid IN (
       SELECT rowid
         FROM timer_schedules
        WHERE state <> 'Scheduled' AND coalesce(reached_at, canceled_at) < ?1
        ORDER BY coalesce(reached_at, canceled_at)
        LIMIT +?2)
