-- The oldest events after a number. Seeks the rowid.
SELECT seq, id, payload, headers, attempts, ''
  FROM timer_outbox
 WHERE seq > ?1
 ORDER BY seq
 LIMIT ?2
