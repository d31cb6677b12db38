-- Read the number that the next event would have, in a transaction that is rolled back. To
-- read the sequence itself takes a right that appending does not need.
INSERT INTO timer_outbox (id, payload, headers, appended_at, shard)
VALUES ('', '', '{}', now(), $1)
RETURNING seq
