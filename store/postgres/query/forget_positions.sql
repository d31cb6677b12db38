-- Delete all positions, before others are written.
DELETE FROM timer_positions
