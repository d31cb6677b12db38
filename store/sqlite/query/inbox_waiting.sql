-- Read the first ?2 messages after number ?1 that wait, in the order of their numbers. Seeks the
-- primary key.
SELECT {inbox}
  FROM timer_inbox
 WHERE seq > ?1 AND reason <> 'applied'
 ORDER BY seq
 LIMIT ?2
