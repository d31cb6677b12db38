-- List the first ?2 selections that were applied, that no start reads again, or that came from
-- no log and arrived before ?1, and that no waiting message may meet: none of their tenant
-- that arrived no later, and none of their log with a lower number. Hops over
-- idx_timer_inbox_applied from tenant to tenant, and reads the first arrival of each tenant
-- once, from idx_timer_inbox_retry.
WITH RECURSIVE tenants (tenant_id) AS (
     SELECT ''
      UNION ALL
     SELECT (SELECT i.tenant_id
               FROM timer_inbox AS i
              WHERE i.retry_at IS NULL AND i.tenant_id > tenants.tenant_id
              ORDER BY i.tenant_id
              LIMIT 1)
       FROM tenants
      WHERE tenant_id IS NOT NULL),
     waits (tenant_id, since) AS MATERIALIZED (
     SELECT tenant_id, (SELECT min(i.arrived_at) FROM timer_inbox AS i WHERE i.tenant_id = tenants.tenant_id AND i.retry_at IS NOT NULL)
       FROM tenants
      WHERE tenant_id IS NOT NULL),
     reached (log, number) AS MATERIALIZED (
     SELECT log, number
       FROM timer_numbers
      WHERE kind = 'commands')
SELECT a.seq
  FROM waits
 CROSS JOIN timer_inbox AS a
 WHERE a.tenant_id = waits.tenant_id AND a.retry_at IS NULL AND (waits.since IS NULL OR a.arrived_at < waits.since)
   AND CASE WHEN a.log IS NULL THEN a.arrived_at < ?1
            ELSE EXISTS (SELECT 1 FROM reached WHERE reached.log = a.log AND reached.number >= a.number)
                 AND NOT EXISTS (SELECT 1 FROM timer_inbox AS w WHERE w.log = a.log AND w.number < a.number AND w.retry_at IS NOT NULL)
        END
 LIMIT ?2
