-- Takes the write lock and changes nothing. First in every transaction that
-- writes: on a host's handle it may have begun without the lock, and one that
-- reads before it writes fails as soon as somebody else has written meanwhile.
DELETE FROM timer_outbox
 WHERE false
