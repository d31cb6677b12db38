-- Find an instance whose receivers of events are of another kind than those of this one, which
-- node.sql has described: its kind, and its description if our role may see that. The number of
-- the lock of an instance (see own.sql) has its kind, which is 0 for an instance of 0.1.0. Two
-- instances that look for each other hold their locks already, so one of them finds the other.
SELECT coalesce(min(l.objid::bigint / 256 || ' ' || coalesce(a.application_name, '')), '')
  FROM pg_locks AS l
  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
 WHERE l.locktype = 'advisory'
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.classid = (hashtext('timer_instance ' || current_schema())::bigint & 4294967295)::oid
   AND l.granted
   AND l.objid::bigint / 256 NOT IN (0, current_setting('timers.receivers')::bigint)
   AND current_setting('timers.receivers') <> '0'
