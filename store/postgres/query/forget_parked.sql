-- Delete the first $2 parked events of tenant $1. Seeks
-- idx_timer_outbox_parked_tenant and fetches each row by its place.
  WITH first AS MATERIALIZED (
       SELECT ctid AS place
         FROM timer_outbox_parked
        WHERE (headers::json ->> 'tenantId') COLLATE "C" = $1
        ORDER BY (headers::json ->> 'tenantId') COLLATE "C", seq + 0
        LIMIT $2
          FOR UPDATE)
DELETE FROM timer_outbox_parked AS p
 USING first
 WHERE p.ctid = first.place
