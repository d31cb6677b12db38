-- Find which numbers of log ?1, of those in the JSON array ?2, the inbox has, and when each
-- arrived. Seeks idx_timer_inbox_number.
SELECT i.number, i.arrived_at
  FROM json_each(?2) AS wanted
 CROSS JOIN timer_inbox AS i
 WHERE i.log = ?1 AND i.number = wanted.value
