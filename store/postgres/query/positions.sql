-- How far the database has each log of the broker: a few rows.
SELECT log, done, seen
  FROM timer_positions
