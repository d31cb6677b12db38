-- Timers from number $1 to $2, of $4 tenants whose names begin with $3, due
-- within $6 seconds from $5 on. Identifiers are like UUIDv7s of now, which is
-- what producers make; 7919 is a prime: due times have no order.
INSERT INTO timer_schedules
       (tenant_id, service_call_id, correlation_id, due_at, registered_at, state, command_at, command_id)
SELECT $3::text || n % $4::bigint,
       prefix || '-8' || middle || '-' || substr(random, 1, 12),
       prefix || '-9' || middle || '-' || substr(random, 13, 12),
       $5::timestamptz + n * 7919 % $6::bigint * interval '1 second',
       at,
       'Scheduled',
       ms,
       prefix || '-a' || middle || '-' || substr(random, 20, 12)
  FROM (SELECT n, at, ms, md5(n || ' ' || ms) AS random, lpad(to_hex(n % 4096), 3, '0') AS middle,
               substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-7' || lpad(to_hex(n / 4096 % 4096), 3, '0') AS prefix
          FROM (SELECT at, ms, lpad(to_hex(ms), 12, '0') AS hex
                  FROM (SELECT clock_timestamp() AS at, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms) AS now) AS now
         CROSS JOIN generate_series($1::bigint, $2::bigint) AS n) AS numbers
