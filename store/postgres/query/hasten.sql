-- Make all deferred events of shard $1 due at $2, except snoozed ones.
UPDATE timer_outbox_deferred
   SET retry_at = $2
 WHERE shard::integer = $1 AND destination < '~' AND retry_at > $2
