-- Have message ?1 wait until ?2. Seeks the rowid.
UPDATE timer_inbox
   SET retry_at = ?2, reason = ?3, attempts = ?4, last_error = ?5
 WHERE seq = ?1 AND reason <> 'applied'
