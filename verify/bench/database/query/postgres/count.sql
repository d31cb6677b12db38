-- Count what was put in: $2 timers of $3 tenants whose names begin with $1, a
-- tenant as many as another, but for the rest.
INSERT INTO timer_counts (tenant_id, scheduled)
SELECT $1::text || n, $2::bigint / $3::bigint + (n < $2::bigint % $3::bigint)::integer
  FROM generate_series(0, $3::bigint - 1) AS n
 WHERE $2::bigint / $3::bigint + (n < $2::bigint % $3::bigint)::integer > 0
