-- The transaction that holds the lock for migrations waits for others to have
-- migrated, and then for its own process to do it, however long that takes.
SELECT set_config('idle_in_transaction_session_timeout', '0', true),
       set_config('lock_timeout', '0', true),
       set_config('statement_timeout', '0', true)
