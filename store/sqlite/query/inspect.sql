-- What a copy holds, counted anew: a copy of any version of the schema has these
-- tables. Scans them.
SELECT count(*) FILTER (WHERE state = 'Scheduled'),
       count(*) FILTER (WHERE state = 'Reached'),
       count(*) FILTER (WHERE state = 'Expired'),
       count(*) FILTER (WHERE state = 'Canceled'),
       (SELECT count(*) FROM timer_outbox),
       (SELECT count(*) FROM timer_outbox_parked)
  FROM timer_schedules
