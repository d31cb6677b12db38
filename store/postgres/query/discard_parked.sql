-- Delete parked events. Seeks the primary key.
DELETE FROM timer_outbox_parked
 WHERE seq = ANY ($1::bigint[])
