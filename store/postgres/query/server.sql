-- Read the version of the server and the settings that decide whether it keeps commits; whether
-- the role or the connection alone has transactions begin read-only, as a host may set it; and
-- whether the database or the server has them begin so. A session that is older than a setting
-- does not know it, so these are read where they are kept. One of the role that allows writes
-- comes before them, and one of the database before one of all databases.
  WITH kept AS (
       SELECT setrole, setdatabase, split_part(setting, '=', 2)::boolean AS enabled
         FROM pg_db_role_setting, unnest(setconfig) AS setting
        WHERE setting LIKE 'default_transaction_read_only=%'
          AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
          AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))),
       known AS (
       SELECT setting = 'on' AND source IN ('user', 'database user', 'client', 'session') AS own, setting = 'on' AS enabled
         FROM pg_settings
        WHERE name = 'default_transaction_read_only')
SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
       current_setting('synchronous_commit'), current_setting('fsync'),
       own,
       enabled AND NOT own
       OR COALESCE((SELECT enabled FROM kept WHERE setrole = 0 ORDER BY (setdatabase <> 0) DESC LIMIT 1), false)
          AND NOT EXISTS (SELECT FROM kept WHERE setrole <> 0 AND NOT enabled)
  FROM known
