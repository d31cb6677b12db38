-- Claim messages that are due at $1, for the tenants in $2, of each up to the number in $3:
-- they are handled again at $4. Returns them as they were. Skips messages that another
-- transaction is changing. Seeks idx_timer_inbox_retry, as reach_shares.sql does its index, and
-- fetches each row by its place.
  WITH claimed AS MATERIALIZED (
       SELECT place, retry_at
         FROM unnest($2::text[], $3::bigint[]) AS share (tenant_id, n)
        CROSS JOIN LATERAL (
              SELECT ctid AS place, retry_at
                FROM timer_inbox AS i
               WHERE i.retry_at IS NOT NULL AND i.tenant_id = ANY (ARRAY[share.tenant_id]) AND i.retry_at <= $1
               ORDER BY i.tenant_id, i.retry_at, i.seq
               LIMIT share.n
                 FOR UPDATE SKIP LOCKED) AS due)
UPDATE timer_inbox AS i
   SET retry_at = $4
  FROM claimed
 WHERE i.ctid = claimed.place
RETURNING {i.inbox}, claimed.retry_at
