-- Delete the events with the numbers from ?1 to ?2. There is no gap between them, and the
-- broker has acked each. Seeks the rowid.
DELETE FROM timer_outbox
 WHERE seq BETWEEN ?1 AND ?2
