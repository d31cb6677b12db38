-- Take out of the outbox what load_parked.sql put there.
DELETE FROM timer_outbox
 WHERE shard = 0
   AND seq IN (SELECT seq FROM timer_outbox_parked)
