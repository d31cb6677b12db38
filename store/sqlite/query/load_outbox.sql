-- Keep an event as another store had it. VALUES is repeated for each event of a
-- batch. Only adds to the end.
INSERT INTO timer_outbox (id, payload, headers, appended_at, attempts, last_error)
VALUES (?, ?, ?, ?, ?, ?)
