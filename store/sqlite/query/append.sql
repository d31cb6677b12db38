-- Add events to the outbox. VALUES is repeated for each event of a batch. Only
-- adds to the end. OR FAIL as in mark.sql.
INSERT OR FAIL INTO timer_outbox (id, payload, headers, appended_at)
VALUES (?, ?, ?, ?)
