-- Report whether there are counts that are not folded. Reads idx_timer_counts_fresh.
SELECT EXISTS (SELECT 1 FROM timer_counts WHERE NOT folded)
