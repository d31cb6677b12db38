-- Rows of timers in no state that there is, or without what it needs: no index finds
-- them when they are due. Walks all rows: it runs after damage was found.
SELECT rowid
  FROM timer_schedules
 WHERE state IS NULL
    OR state NOT IN ('Scheduled', 'Reached', 'Canceled')
    OR state = 'Scheduled' AND typeof(due_at) <> 'integer'
