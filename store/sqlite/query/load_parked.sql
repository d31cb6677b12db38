-- Keep a parked event as another store had it, under a number that no other event
-- gets. Seeks the rowid.
INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
