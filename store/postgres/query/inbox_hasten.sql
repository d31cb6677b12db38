-- Have the first $3 messages that would wait until later than $2 wait until $1. Reads
-- idx_timer_inbox_retry, and fetches each row by its place.
  WITH later AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_inbox
        WHERE retry_at IS NOT NULL AND retry_at > $2
        LIMIT $3)
UPDATE timer_inbox AS i
   SET retry_at = $1
  FROM later
 WHERE i.ctid = later.place
