-- Timers that wait, by their rowids, which are a JSON array, in its order. Seeks
-- the rowid.
SELECT {columns}
  FROM json_each(?1)
 CROSS JOIN timer_schedules
 WHERE timer_schedules.rowid = value AND state = 'Scheduled'
