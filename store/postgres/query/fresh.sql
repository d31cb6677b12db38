-- Count the rows of counts that are not folded, up to $1. Reads idx_timer_counts_fresh.
SELECT count(*)
  FROM (SELECT 1
          FROM timer_counts
         WHERE NOT folded
         LIMIT $1) AS fresh
