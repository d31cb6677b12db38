-- Delete the first $3 messages of tenant $1 that arrived before $2, or any if that is null:
-- the waiting ones, and then the selections that were applied. Waits for rows that another
-- transaction is changing. Seeks both indexes of tenants, goes over messages that arrived
-- later, and seeks the primary key: a row that it waited for has moved to another place.
  WITH waiting AS MATERIALIZED (
       SELECT seq
         FROM timer_inbox
        WHERE retry_at IS NOT NULL AND tenant_id = $1 AND ($2::timestamptz IS NULL OR arrived_at < $2)
        ORDER BY tenant_id, retry_at, seq
        LIMIT $3
          FOR UPDATE),
       applied AS MATERIALIZED (
       SELECT seq
         FROM timer_inbox
        WHERE retry_at IS NULL AND tenant_id = $1 AND ($2::timestamptz IS NULL OR arrived_at < $2)
        ORDER BY tenant_id, seq
        LIMIT greatest($3 - (SELECT count(*) FROM waiting), 0)
          FOR UPDATE)
DELETE FROM timer_inbox
 WHERE seq = ANY (ARRAY (SELECT seq FROM waiting UNION ALL SELECT seq FROM applied))
