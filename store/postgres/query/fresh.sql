-- Report as 1 or 0 whether there are counts that are not folded. Reads idx_timer_counts_fresh.
SELECT count(*)
  FROM (SELECT 1
          FROM timer_counts
         WHERE NOT folded
         LIMIT 1) AS fresh
