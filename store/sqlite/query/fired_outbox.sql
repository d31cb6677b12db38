-- Events that were published leave the outbox, by their ids in the JSON array ?1.
-- Scans it: an index of ids would cost every event.
DELETE FROM timer_outbox
 WHERE id IN (SELECT value FROM json_each(?1))
