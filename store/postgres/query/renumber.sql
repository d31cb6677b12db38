-- Continue the numbers of events after $1.
SELECT setval(pg_get_serial_sequence('timer_outbox', 'seq'), $1)
