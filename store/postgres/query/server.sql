-- Read the version of the server and the settings that decide whether it keeps commits; whether
-- the role or the connection alone has transactions begin read-only, as a host may set it; and
-- whether the database or the server has them begin so. A session that is older than a setting
-- does not know it, so these are read where they are kept. One of the role that allows writes
-- comes before them, and one of the database before one of all databases.
-- A server of Neon has fsync off: its safekeepers sync each commit before it is acknowledged, if
-- that waits for them. A setting with the name that a user makes up has another context.
  WITH kept AS (
       SELECT setrole, setdatabase, split_part(setting, '=', 2)::boolean AS enabled
         FROM pg_db_role_setting, unnest(setconfig) AS setting
        WHERE setting LIKE 'default_transaction_read_only=%'
          AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
          AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))),
       known AS (
       SELECT bool_or(name = 'default_transaction_read_only' AND setting = 'on' AND source IN ('user', 'database user', 'client', 'session')) AS own,
              bool_or(name = 'default_transaction_read_only' AND setting = 'on') AS enabled,
              max(setting) FILTER (WHERE name = 'synchronous_commit') AS synchronous,
              max(setting) FILTER (WHERE name = 'fsync') AS fsync,
              bool_or(name = 'neon.safekeepers' AND context IN ('postmaster', 'sighup') AND setting <> '')
              AND bool_or(name = 'synchronous_standby_names' AND setting = 'walproposer')
              AND bool_or(name = 'synchronous_commit' AND setting IN ('on', 'remote_apply')) AS kept_by_others
         FROM pg_settings
        WHERE name IN ('default_transaction_read_only', 'synchronous_commit', 'fsync', 'neon.safekeepers', 'synchronous_standby_names'))
SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
       synchronous, CASE WHEN kept_by_others THEN 'on' ELSE fsync END,
       own,
       enabled AND NOT own
       OR COALESCE((SELECT enabled FROM kept WHERE setrole = 0 ORDER BY (setdatabase <> 0) DESC LIMIT 1), false)
          AND NOT EXISTS (SELECT FROM kept WHERE setrole <> 0 AND NOT enabled)
  FROM known
