-- Timers from number ?1 to ?2, of ?4 tenants whose names begin with ?3, due
-- within ?6 seconds from ?5 on. Identifiers are like UUIDv7s of now, which is
-- what producers make; 7919 is a prime: due times have no order.
  WITH RECURSIVE numbers (n) AS (
       SELECT ?1
        UNION ALL
       SELECT n + 1
         FROM numbers
        WHERE n < ?2),
       now (hex, ms) AS (
       SELECT format('%012x', CAST(unixepoch('subsec') * 1000 AS INTEGER)), CAST(unixepoch('subsec') * 1000 AS INTEGER))
INSERT INTO timer_schedules
       (tenant_id, service_call_id, correlation_id, due_at, registered_at, state, command_at, command_id)
SELECT ?3 || (n % ?4),
       substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || format('-7%03x-8%03x-', n / 4096 % 4096, n % 4096) || lower(hex(randomblob(6))),
       substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || format('-7%03x-9%03x-', n / 4096 % 4096, n % 4096) || lower(hex(randomblob(6))),
       ?5 + n * 7919 % ?6 * 1000,
       ms,
       'Scheduled',
       ms,
       substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || format('-7%03x-a%03x-', n / 4096 % 4096, n % 4096) || lower(hex(randomblob(6)))
  FROM numbers
 CROSS JOIN now
