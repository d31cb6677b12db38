-- Have the first ?3 messages that would wait until later than ?2 wait until ?1. Reads
-- idx_timer_inbox_retry.
UPDATE timer_inbox
   SET retry_at = ?1
 WHERE seq IN (
       SELECT seq
         FROM timer_inbox
        WHERE retry_at IS NOT NULL AND retry_at > ?2
        LIMIT ?3)
