-- Add up the counts of all tenants for operators. An event that its handler wants later is not old.
SELECT coalesce(sum(scheduled), 0), coalesce(sum(reached), 0), coalesce(sum(expired), 0), coalesce(sum(canceled), 0), coalesce(sum(outbox), 0),
       min(next_due),
       (SELECT min(appended_at)
          FROM (SELECT appended_at FROM (SELECT appended_at FROM timer_outbox ORDER BY seq LIMIT 1)
                 UNION ALL
                SELECT appended_at FROM (SELECT appended_at FROM timer_outbox_deferred WHERE destination < '~' ORDER BY seq LIMIT 1))),
       (SELECT min(id)
          FROM (SELECT id FROM (SELECT id FROM timer_outbox ORDER BY seq LIMIT 1)
                 UNION ALL
                SELECT id FROM (SELECT id FROM timer_outbox_deferred WHERE destination < '~' ORDER BY seq LIMIT 1))),
       (SELECT count(*) FROM timer_outbox_parked)
  FROM timer_counts
