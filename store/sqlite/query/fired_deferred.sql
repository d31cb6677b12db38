-- As fired_outbox.sql, those that are deferred.
DELETE FROM timer_outbox_deferred
 WHERE id IN (SELECT value FROM json_each(?1))
