-- What this instance is, for nodes.sql, as the name of the application until the
-- transaction ends: that of the lease, which ends with the instance. $2 is for take_over.sql.
SELECT set_config('application_name', $1, true),
       set_config('timers.abandoned', $2, true)
