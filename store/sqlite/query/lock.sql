-- Take the write lock and change nothing: there is no row 0. First in every
-- transaction, since a host's handle may begin one without the lock, and one
-- that reads before it writes fails as soon as another has written.
-- Seeks the rowid.
UPDATE timer_outbox
   SET attempts = attempts
 WHERE seq = 0
