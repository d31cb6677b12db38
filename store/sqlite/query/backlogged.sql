-- Whether more timers are due than a batch of ?2 holds. Walks ?2 entries of
-- idx_timer_schedules_due_at.
SELECT EXISTS (
       SELECT 1
         FROM timer_schedules
        WHERE state = 'Scheduled' AND due_at <= ?1
        ORDER BY due_at
        LIMIT 1 OFFSET +?2)
