-- Lift the timeouts of the transaction that holds the lock for migrations. It waits for other
-- processes to migrate, and then for its own process to do so, however long that takes.
SELECT set_config('idle_in_transaction_session_timeout', '0', true),
       set_config('lock_timeout', '0', true),
       set_config('statement_timeout', '0', true)
