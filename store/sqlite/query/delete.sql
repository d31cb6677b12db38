-- Events that the broker has acked. Seeks the rowid; the list is repeated.
DELETE FROM timer_outbox
 WHERE seq IN (?)
