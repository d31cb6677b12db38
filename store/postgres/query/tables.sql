-- List which of our tables a crash of the server empties, of which the role does not see all
-- rows, because it is subject to row-level security, and which the role may not read and
-- change. Tables that do not exist yet are in none of the lists.
SELECT coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE c.relpersistence <> 'p'), ''),
       coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE row_security_active(c.oid)), ''),
       coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE NOT (
                has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))), '')
  FROM unnest(ARRAY['timer_schedules', 'timer_outbox', 'timer_outbox_deferred', 'timer_outbox_parked', 'timer_counts',
                    'timer_database', 'timer_firing', 'timer_positions', 'timer_schema']) AS ours
  JOIN pg_class c ON c.oid = to_regclass(ours)
