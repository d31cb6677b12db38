-- Count the rows of a copy, and not by timer_counts, which may be damaged. Copies of
-- all versions of the schema have these tables. Scans them.
SELECT count(*) FILTER (WHERE state = 'Scheduled'),
       count(*) FILTER (WHERE state = 'Reached'),
       count(*) FILTER (WHERE state = 'Expired'),
       count(*) FILTER (WHERE state = 'Canceled'),
       (SELECT count(*) FROM timer_outbox),
       (SELECT count(*) FROM timer_outbox_parked)
  FROM timer_schedules
