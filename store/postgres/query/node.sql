-- Describe this instance, for nodes.sql, in the name of the application until the transaction
-- ends. That transaction holds the lease, and ends with the instance. $2 is for
-- take_over.sql.
SELECT set_config('application_name', $1, true),
       set_config('timers.abandoned', $2, true)
