-- The number that the next event would have, in a transaction that is rolled back: to ask
-- the sequence itself takes a right that to append takes not.
INSERT INTO timer_outbox (id, payload, headers, appended_at, shard)
VALUES ('', '', '{}', now(), $1)
RETURNING seq
