-- Read how often numbers were written. Seeks the primary key.
SELECT coalesce(max(number), 0)
  FROM timer_numbers
 WHERE broker = '' AND log = '' AND kind = ''
