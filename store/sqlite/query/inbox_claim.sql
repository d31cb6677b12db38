-- Move when the messages of the numbers in the JSON array ?2, which were read under the same
-- write lock, are handled again to ?1. Seeks the rowids.
UPDATE timer_inbox
   SET retry_at = ?1
 WHERE seq IN (SELECT value FROM json_each(?2))
