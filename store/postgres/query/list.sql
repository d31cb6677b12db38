-- Read timers of a tenant after a service call and before $9: of the next $8 the first $7
-- that match. If fewer match, the last of the $8 is returned too, whether it matches or not,
-- and the first column marks it. Seeks the primary key.
  WITH walk AS MATERIALIZED (
       SELECT {columns}
         FROM timer_schedules
        WHERE tenant_id = $1 AND service_call_id > $2 AND service_call_id < $9
        ORDER BY tenant_id, service_call_id
        LIMIT $8),
       found AS MATERIALIZED (
       SELECT *
         FROM walk
        WHERE ($3 = '' OR state = $3)
          AND ($4::timestamptz IS NULL OR due_at >= $4)
          AND ($5::timestamptz IS NULL OR due_at < $5)
          AND ($6 = '' OR correlation_id = $6)
        LIMIT $7),
       edge AS (
       SELECT *
         FROM walk
        WHERE (SELECT count(*) FROM found) < $7
       OFFSET $8 - 1)
SELECT false, *
  FROM found
 UNION ALL
SELECT true, *
  FROM edge
