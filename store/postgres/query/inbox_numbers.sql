-- Find which numbers of log $1, of those in $2, the inbox has, and the rows. Seeks
-- idx_timer_inbox_number.
SELECT i.number, i.seq
  FROM unnest($2::bigint[]) AS wanted (number)
 CROSS JOIN LATERAL (
       SELECT number, seq
         FROM timer_inbox AS i
        WHERE i.log = $1 AND i.number = wanted.number) AS i
