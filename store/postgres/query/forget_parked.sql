-- Delete the first $3 parked events of tenant $1 that were appended until $2, or at any time if
-- that is null. Seeks idx_timer_outbox_parked_tenant, goes over events that were appended later,
-- and fetches each row by its place.
  WITH first AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_outbox_parked
        WHERE (headers::json ->> 'tenantId') COLLATE "C" = $1 AND ($2::timestamptz IS NULL OR appended_at <= $2)
        ORDER BY (headers::json ->> 'tenantId') COLLATE "C", seq + 0
        LIMIT $3
          FOR UPDATE)
DELETE FROM timer_outbox_parked AS p
 USING first
 WHERE p.ctid = first.place
