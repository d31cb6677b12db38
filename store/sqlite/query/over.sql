-- Whether anything was over before ?1. Seeks idx_timer_schedules_over.
SELECT EXISTS (
       SELECT 1
         FROM timer_schedules
        WHERE state <> 'Scheduled' AND coalesce(reached_at, canceled_at) < ?1)
