-- Take the locks that writes need, which another transaction may hold or wait for,
-- and change nothing. They are the weakest ones that a write takes, and are not
-- refused in a transaction that only reads.
LOCK TABLE timer_schedules, timer_outbox, timer_counts IN ROW EXCLUSIVE MODE
