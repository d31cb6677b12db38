-- Have the numbers of events go on behind $1.
SELECT setval(pg_get_serial_sequence('timer_outbox', 'seq'), $1)
