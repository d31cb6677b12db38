-- Delete a damaged row of a timer. A trigger counts it. Seeks the rowid.
DELETE FROM timer_schedules
 WHERE rowid = ?1
