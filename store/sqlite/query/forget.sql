-- Delete the first ?3 timers of tenant ?1, of any state, that were registered until ?2, or at
-- any time if that is null. A trigger counts them. Seeks the primary key, and goes over timers
-- that were registered later.
DELETE FROM timer_schedules
 WHERE rowid IN (
       SELECT rowid
         FROM timer_schedules
        WHERE tenant_id = ?1 AND (?2 IS NULL OR registered_at <= ?2)
        ORDER BY service_call_id
        LIMIT ?3)
RETURNING state, 1
