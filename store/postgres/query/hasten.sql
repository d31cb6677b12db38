-- Deferred events of shard $1 are due at $2, whenever they were to be. Changes all of them.
UPDATE timer_outbox_deferred
   SET retry_at = $2
 WHERE shard::integer = $1 AND retry_at > $2
