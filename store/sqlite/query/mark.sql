-- Mark timers that were read under the same write lock. Seeks the rowid; the
-- list is repeated. One statement for many goes over each page of the table
-- once: a statement a tenant took three times as long (measured 2026-11).
UPDATE timer_schedules
   SET state = 'Reached', reached_at = ?
 WHERE state = 'Scheduled' AND rowid IN (?)
