-- Read at once all that a running instance checks: server.sql, tables.sql, version.sql and
-- history.sql; whether the server is a replica; and whether another transaction holds, or
-- waits for, a lock on our tables that a write has to wait for.
SELECT server.*, tables.*, version.*, history.*,
       pg_is_in_recovery(),
       EXISTS (
       SELECT FROM pg_locks
        WHERE locktype = 'relation'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND relation IN (to_regclass('timer_schedules'), to_regclass('timer_outbox'), to_regclass('timer_counts'))
          AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'))
  FROM ({server}) AS server,
       ({tables}) AS tables,
       ({version}) AS version,
       ({history}) AS history
