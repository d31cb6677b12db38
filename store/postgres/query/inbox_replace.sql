-- Delete the message that waits of log $1 and number $2: a selection that was applied takes its
-- place. Seeks idx_timer_inbox_number.
DELETE FROM timer_inbox
 WHERE log = $1 AND number = $2 AND retry_at IS NOT NULL
