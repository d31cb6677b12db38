-- Deferred events that the broker has acked: those of a run of numbers without
-- gaps. Seeks the rowid.
DELETE FROM timer_outbox_deferred
 WHERE seq BETWEEN ?1 AND ?2
