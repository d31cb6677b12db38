-- Take the table locks that writes need, and change nothing. This finds out whether another
-- transaction holds conflicting locks or waits for them. These are the weakest locks that a
-- write takes, and a transaction that only reads may take them.
LOCK TABLE timer_schedules, timer_outbox, timer_counts IN ROW EXCLUSIVE MODE
