-- Forget all positions: others take their place.
DELETE FROM timer_positions
