-- Commands that meet the lock of another transaction say so soon, see await.sql, before they
-- wait for it. Return whether any timers are kept from firing. Seeks idx_timer_awaited_until.
SELECT EXISTS (SELECT 1 FROM timer_awaited WHERE until > now())
  FROM set_config('lock_timeout', '200ms', true)
