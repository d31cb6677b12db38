-- Limit the wait for a lock to the time that a check of the database may take.
SELECT set_config('lock_timeout', '700ms', true)
