-- The processes that work for this database, but for those that measure it.
SELECT pid, coalesce(backend_start::text, '')
  FROM pg_stat_activity
 WHERE datname = current_database() AND application_name <> 'timer-bench'
