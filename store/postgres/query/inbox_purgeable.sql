-- List the first $2 selections that were applied, that no start reads again, or that came from
-- no log and arrived before $1, and that no waiting message may meet: none of their tenant
-- that arrived no later, and none of their log with a lower number. Hops over
-- idx_timer_inbox_applied from tenant to tenant, and reads the first arrival of each tenant
-- once, from idx_timer_inbox_retry. Hops over the primary key of timer_numbers, backwards,
-- since the last row of a log and kind counts.
WITH RECURSIVE tenants (tenant_id) AS (
     SELECT ''::text COLLATE "C"
      UNION ALL
     SELECT first.tenant_id
       FROM tenants
      CROSS JOIN LATERAL (
            SELECT i.tenant_id
              FROM timer_inbox AS i
             WHERE i.retry_at IS NULL AND i.tenant_id > tenants.tenant_id
             ORDER BY i.tenant_id, i.seq
             LIMIT 1) AS first),
     waits (tenant_id, since) AS MATERIALIZED (
     SELECT tenant_id, (SELECT min(w.arrived_at) FROM timer_inbox AS w WHERE w.tenant_id = tenants.tenant_id AND w.retry_at IS NOT NULL)
       FROM tenants),
     numbers (broker, log, kind, number) AS (
     (SELECT broker, log, kind, number
        FROM timer_numbers
       ORDER BY broker DESC, log DESC, kind DESC, seq DESC
       LIMIT 1)
      UNION ALL
     SELECT last.broker, last.log, last.kind, last.number
       FROM numbers
      CROSS JOIN LATERAL (
            SELECT n.broker, n.log, n.kind, n.number
              FROM timer_numbers AS n
             WHERE (n.broker, n.log, n.kind) < (numbers.broker, numbers.log, numbers.kind)
             ORDER BY n.broker DESC, n.log DESC, n.kind DESC, n.seq DESC
             LIMIT 1) AS last)
SELECT a.seq
  FROM waits
 CROSS JOIN LATERAL (
       SELECT i.seq, i.log, i.number, i.arrived_at
         FROM timer_inbox AS i
        WHERE i.retry_at IS NULL AND i.tenant_id = waits.tenant_id AND (waits.since IS NULL OR i.arrived_at < waits.since)) AS a
 WHERE CASE WHEN a.log IS NULL THEN a.arrived_at < $1
            ELSE EXISTS (SELECT 1 FROM numbers WHERE numbers.log = a.log AND numbers.kind = 'commands' AND numbers.number >= a.number)
                 AND NOT EXISTS (SELECT 1 FROM timer_inbox AS w WHERE w.log = a.log AND w.number < a.number AND w.retry_at IS NOT NULL)
        END
 LIMIT $2
