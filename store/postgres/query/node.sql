-- Describe this instance, for nodes.sql, in the name of the application until the transaction
-- ends. That transaction holds the lease, and ends with the instance. $2 is for
-- take_over.sql, $3 is the kind of its receivers of events, for own.sql and others.sql. For each
-- prefix of a handler in $4 it has a lock, which other instances may have, too: see unclaimed.sql.
SELECT set_config('application_name', $1, true),
       set_config('timers.abandoned', $2, true),
       set_config('timers.receivers', $3, true),
       (SELECT count(pg_try_advisory_xact_lock_shared(hashtext('timer_handler ' || current_schema()), hashtext(prefix)))
          FROM unnest($4::text[]) AS prefix)
