-- The oldest events after a number. Seeks the rowid. With LIMIT ?2 and no plus, SQLite would
-- plan the prepared statement anew each time it runs.
SELECT seq, id, payload, headers, attempts, ''
  FROM timer_outbox
 WHERE seq > ?1
 ORDER BY seq
 LIMIT +?2
