-- Commands that meet the lock of another transaction say so soon, see await.sql, before they
-- wait for it.
SELECT set_config('lock_timeout', '200ms', true)
