-- Wait for a lock no longer than a check of the database may take.
SELECT set_config('lock_timeout', '700ms', true)
