-- Find which numbers of log $1, of those in $2, the inbox has, and when each arrived. Seeks
-- idx_timer_inbox_number.
SELECT i.number, i.arrived_at
  FROM unnest($2::bigint[]) AS wanted (number)
 CROSS JOIN LATERAL (
       SELECT number, arrived_at
         FROM timer_inbox AS i
        WHERE i.log = $1 AND i.number = wanted.number) AS i
