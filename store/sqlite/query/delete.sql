-- Events that the broker has acked: those of a run of numbers without gaps, all
-- of which were read and published. Seeks the rowid.
DELETE FROM timer_outbox
 WHERE seq BETWEEN ?1 AND ?2
