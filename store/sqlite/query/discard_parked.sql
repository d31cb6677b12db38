-- Delete the parked events of the numbers in the JSON array ?1. Seeks the rowid.
DELETE FROM timer_outbox_parked
 WHERE seq IN (SELECT value FROM jsonb_each(?1))
