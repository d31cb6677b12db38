-- Find which numbers of log ?1, of those in the JSON array ?2, the inbox has, and the rows.
-- Seeks idx_timer_inbox_number.
SELECT i.number, i.seq
  FROM json_each(?2) AS wanted
 CROSS JOIN timer_inbox AS i
 WHERE i.log = ?1 AND i.number = wanted.value
