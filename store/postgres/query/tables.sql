-- List which of our tables a crash of the server empties, of which the role does not see all
-- rows, because it is subject to row-level security, which the role may not read and change,
-- and which have a rule, or a trigger before each row, that may drop rows in silence. A host
-- may have such triggers on timer_schedules. Tables that do not exist yet are in none of the
-- lists.
SELECT coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE c.relpersistence <> 'p'), ''),
       coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE row_security_active(c.oid)), ''),
       coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE NOT (
                has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))), ''),
       coalesce(string_agg(c.relname, ', ' ORDER BY c.relname) FILTER (WHERE
                EXISTS (SELECT 1 FROM pg_rewrite WHERE ev_class = c.oid)
                OR ours <> 'timer_schedules' AND EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = c.oid AND tgtype & 3 = 3)), '')
  FROM unnest(ARRAY['timer_schedules', 'timer_outbox', 'timer_outbox_deferred', 'timer_outbox_parked', 'timer_counts',
                    'timer_awaited', 'timer_database', 'timer_decisions', 'timer_firing', 'timer_inbox', 'timer_numbers', 'timer_positions', 'timer_schema']) AS ours
  JOIN pg_class c ON c.oid = to_regclass(ours)
