-- Since when firing is paused, and by whom. The table has one row.
SELECT paused_at, coalesce(paused_by, '')
  FROM timer_database
