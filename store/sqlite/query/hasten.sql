-- Deferred events that a handler wants now are due at ?1, whenever they were to be. Changes all of
-- them.
UPDATE timer_outbox_deferred
   SET retry_at = ?1
 WHERE retry_at > ?1 AND unclaimed = 0 AND destination < '~'
