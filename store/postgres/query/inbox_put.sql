-- Add messages to the inbox, in the order given, unless they are there already. Adds at the end,
-- and an entry to each index.
INSERT INTO timer_inbox (tenant_id, log, number, topic, position, message_id, headers, body, bytes, arrived_at, reason, attempts, last_error, retry_at)
SELECT tenant_id, nullif(log, ''), CASE WHEN log <> '' THEN number END, topic, position, message_id, headers, body, bytes,
       timestamptz 'epoch' + arrived_at * interval '1 millisecond', reason, attempts, last_error, timestamptz 'epoch' + nullif(retry_at, 0) * interval '1 millisecond'
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[], $9::integer[], $10::bigint[], $11::text[], $12::integer[],
              $13::text[], $14::bigint[])
       AS m (tenant_id, log, number, topic, position, message_id, headers, body, bytes, arrived_at, reason, attempts, last_error, retry_at)
    ON CONFLICT DO NOTHING
