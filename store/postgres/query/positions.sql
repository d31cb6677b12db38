-- Read the positions in each log of the broker. There are few rows.
SELECT log, done, seen
  FROM timer_positions
