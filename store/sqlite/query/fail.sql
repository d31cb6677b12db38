-- Count an attempt. Seeks the rowid.
UPDATE timer_outbox
   SET attempts = attempts + 1, last_error = ?2
 WHERE seq = ?1
