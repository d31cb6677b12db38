-- Delete damaged rows. Seeks the primary key.
DELETE FROM timer_damaged
 WHERE seq = ANY ($1::bigint[])
