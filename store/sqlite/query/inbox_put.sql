-- Add messages to the inbox, unless they are there already. VALUES is repeated for each message
-- of a batch. Adds to the end, and an entry to each index.
INSERT INTO timer_inbox (tenant_id, log, number, topic, position, message_id, headers, body, bytes, arrived_at, reason, attempts, last_error, retry_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING
