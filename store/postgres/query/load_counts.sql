-- Count what was loaded.
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, outbox)
SELECT tenant_id,
       count(*) FILTER (WHERE state = 'Scheduled'),
       count(*) FILTER (WHERE state = 'Reached'),
       count(*) FILTER (WHERE state = 'Canceled'),
       0
  FROM timer_schedules
 GROUP BY tenant_id
 UNION ALL
SELECT '', 0, 0, 0, (SELECT count(*) FROM timer_outbox)
