-- Add events to the outbox. VALUES is repeated for each event of a batch. Only
-- adds to the end.
INSERT INTO timer_outbox (id, payload, headers, appended_at)
VALUES (?, ?, ?, ?)
