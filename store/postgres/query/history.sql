-- Read the values that tell the history of this server from another one, and how far it has come: when
-- the server was started, the identifier of the cluster, the timeline, the position up to which its
-- log survives a crash, and the last row of the numbers.
SELECT pg_postmaster_start_time(),
       (SELECT system_identifier FROM pg_control_system()),
       left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
       (pg_current_wal_flush_lsn() - '0/0')::bigint,
       coalesce((SELECT seq + 0 FROM timer_numbers ORDER BY seq + 0 DESC LIMIT 1), 0)
