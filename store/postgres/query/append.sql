-- Add events to a shard of the outbox, in the order given, and count them. Adds only at the
-- end.
  WITH added AS (
       INSERT INTO timer_outbox (id, payload, headers, appended_at, shard)
       SELECT id, payload, headers, timestamptz 'epoch' + appended_at * interval '1 millisecond', $5
         FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bigint[]) AS e (id, payload, headers, appended_at)
       RETURNING 1)
INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', count(*)
  FROM added
