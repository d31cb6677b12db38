-- List the triggers on our tables that are not ours. A host may have some on timer_schedules.
SELECT coalesce(group_concat(name || ' on ' || tbl_name, ', ' ORDER BY name), '')
  FROM sqlite_schema
 WHERE type = 'trigger'
   AND tbl_name IN ('timer_outbox', 'timer_outbox_deferred', 'timer_outbox_parked', 'timer_counts',
                    'timer_database', 'timer_decisions', 'timer_firing', 'timer_inbox', 'timer_numbers', 'timer_positions', 'timer_schema')
