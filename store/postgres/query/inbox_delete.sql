-- Delete messages from the inbox. Seeks the primary key.
DELETE FROM timer_inbox
 WHERE seq = ANY ($1::bigint[])
