-- List the next ?3 tenants after ?2 that have messages which are due at ?1, in order, and how
-- many of these, counted up to ?4. Leaves out the tenants in the JSON array ?5. Hops over
-- idx_timer_inbox_retry with a seek for each tenant, however many messages it has.
WITH RECURSIVE tenants (tenant_id) AS (
     SELECT ?2
      UNION ALL
     SELECT (SELECT i.tenant_id
               FROM timer_inbox AS i
              WHERE i.retry_at IS NOT NULL AND i.tenant_id > tenants.tenant_id
              ORDER BY i.tenant_id
              LIMIT 1)
       FROM tenants
      WHERE tenant_id IS NOT NULL)
SELECT tenant_id,
       (SELECT count(*)
          FROM (SELECT 1
                  FROM timer_inbox AS i
                 WHERE i.tenant_id = tenants.tenant_id AND i.retry_at <= ?1
                 LIMIT +?4))
  FROM tenants
 WHERE tenant_id > ?2
   AND EXISTS (SELECT 1 FROM timer_inbox AS i WHERE i.tenant_id = tenants.tenant_id AND i.retry_at <= ?1)
   AND tenant_id NOT IN (SELECT value FROM json_each(?5))
 LIMIT +?3
