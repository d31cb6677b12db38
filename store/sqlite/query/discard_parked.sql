-- Delete a parked event. Seeks the rowid.
DELETE FROM timer_outbox_parked
 WHERE seq = ?1
