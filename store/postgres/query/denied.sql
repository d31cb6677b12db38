-- List our tables that the role may not read and change.
SELECT c.relname
  FROM pg_class c
 WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('timer_schedules'))
   AND c.relkind IN ('r', 'p') AND c.relname LIKE 'timer\_%'
   AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
       AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
 ORDER BY c.relname
