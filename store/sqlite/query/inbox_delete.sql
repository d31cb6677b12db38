-- Delete the messages of the numbers in the JSON array ?1. Seeks the rowids.
DELETE FROM timer_inbox
 WHERE seq IN (SELECT value FROM json_each(?1))
