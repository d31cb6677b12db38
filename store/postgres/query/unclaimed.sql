-- Read the first $1 service calls of events that no instance has a handler for. Instances hold a
-- lock for each prefix of their handlers: see node.sql. Hops over
-- idx_timer_outbox_deferred_retry with one seek for each service call that is returned, and for
-- each prefix that an instance has.
  WITH RECURSIVE handled AS MATERIALIZED (
       SELECT objid
         FROM pg_locks
        WHERE locktype = 'advisory'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND classid = (hashtext('timer_handler ' || current_schema())::bigint & 4294967295)::oid
          AND granted),
       waiting (destination, prefix) AS (
       SELECT '' COLLATE "C", NULL COLLATE "C"
        UNION ALL
       SELECT next.destination, left(next.destination, next.length)
         FROM waiting
        CROSS JOIN LATERAL (
              SELECT d.destination, (
                     SELECT min(length)
                       FROM generate_series(0, length(d.destination)) AS length
                      WHERE (hashtext(left(d.destination, length))::bigint & 4294967295)::oid IN (SELECT objid FROM handled)) AS length
                FROM timer_outbox_deferred AS d
               WHERE d.shard::integer = -1 AND d.destination > coalesce(waiting.prefix || E'\x7f', waiting.destination)
               ORDER BY d.shard::integer, d.destination
               LIMIT 1) AS next)
SELECT destination
  FROM waiting
 WHERE prefix IS NULL AND destination <> ''
 LIMIT $1
