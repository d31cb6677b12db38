-- Forget what was over before ?3, between two rowids. Seeks the rowid.
DELETE FROM timer_schedules
 WHERE rowid > ?1 AND rowid <= ?2
   AND state IN ('Reached', 'Canceled')
   AND coalesce(reached_at, canceled_at) < ?3
