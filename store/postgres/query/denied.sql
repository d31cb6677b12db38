-- List our tables that the role may not read and change.
SELECT c.relname
  FROM unnest(ARRAY['timer_schedules', 'timer_outbox', 'timer_outbox_deferred', 'timer_outbox_parked', 'timer_counts',
                    'timer_database', 'timer_firing', 'timer_positions', 'timer_schema']) AS ours
  JOIN pg_class c ON c.oid = to_regclass(ours)
 WHERE NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
       AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
 ORDER BY c.relname
