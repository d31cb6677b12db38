-- Have messages wait until a time. Seeks the primary key.
UPDATE timer_inbox AS i
   SET retry_at = timestamptz 'epoch' + deferred.retry_at * interval '1 millisecond', reason = deferred.reason, attempts = deferred.attempts, last_error = deferred.last_error
  FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::integer[], $5::text[]) AS deferred (seq, retry_at, reason, attempts, last_error)
 WHERE i.seq = deferred.seq AND i.reason <> 'applied'
