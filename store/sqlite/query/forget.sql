-- Delete the first ?2 timers of tenant ?1, of any state. A trigger counts them. Seeks
-- the primary key.
DELETE FROM timer_schedules
 WHERE rowid IN (
       SELECT rowid
         FROM timer_schedules
        WHERE tenant_id = ?1
        ORDER BY service_call_id
        LIMIT ?2)
RETURNING state
