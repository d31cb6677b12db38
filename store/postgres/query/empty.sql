-- Whether there is nothing: the database is that of no service yet.
SELECT NOT EXISTS (SELECT 1 FROM timer_schedules)
   AND NOT EXISTS (SELECT 1 FROM timer_outbox)
   AND NOT EXISTS (SELECT 1 FROM timer_outbox_deferred)
   AND NOT EXISTS (SELECT 1 FROM timer_outbox_parked)
