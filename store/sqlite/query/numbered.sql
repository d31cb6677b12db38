-- The number that the last event was given, as SQLite has it, and the highest one of an
-- event that waits. Seeks the end of each table.
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'timer_outbox'), 0),
       max(coalesce((SELECT max(seq) FROM timer_outbox), 0),
           coalesce((SELECT max(seq) FROM timer_outbox_deferred), 0),
           coalesce((SELECT max(seq) FROM timer_outbox_parked), 0))
