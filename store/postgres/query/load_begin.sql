-- How a load begins. No other transaction writes until it ends; it waits, and
-- tries again later.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL lock_timeout = '6s';
SET LOCAL statement_timeout = 0;
SET LOCAL jit = off;
LOCK TABLE timer_schedules, timer_outbox, timer_outbox_deferred, timer_outbox_parked IN EXCLUSIVE MODE
