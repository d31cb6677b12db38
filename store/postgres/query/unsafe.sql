-- List which of our tables a crash of the server empties, and of which the role does not see
-- all rows, because the role is subject to row-level security. Tables that do not exist yet
-- are in neither list.
SELECT coalesce(string_agg(c.relname, ', ') FILTER (WHERE c.relpersistence <> 'p'), ''),
       coalesce(string_agg(c.relname, ', ') FILTER (WHERE row_security_active(c.oid)), '')
  FROM unnest(ARRAY['timer_schedules', 'timer_outbox', 'timer_outbox_deferred', 'timer_outbox_parked', 'timer_counts',
                    'timer_database', 'timer_firing', 'timer_positions', 'timer_schema']) AS ours
  JOIN pg_class c ON c.oid = to_regclass(ours)
