-- List instances, by the number of the lock that each holds (see own.sql): the description
-- that node.sql has written, when the transaction that holds the lock began, and when the
-- server last received something from it. Columns about other roles are null unless ours may
-- see them.
SELECT l.objid::bigint, coalesce(a.application_name, ''), a.xact_start, a.state_change
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'advisory'
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.classid = (hashtext('timer_instance ' || current_schema())::bigint & 4294967295)::oid
   AND l.granted
