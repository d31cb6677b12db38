-- Have the numbers of events go on behind ?1.
DELETE FROM sqlite_sequence WHERE name = 'timer_outbox';
INSERT INTO sqlite_sequence (name, seq) VALUES ('timer_outbox', ?1)
