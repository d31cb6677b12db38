-- Have a count for the tenant that a damaged row names, so that a trigger can count
-- its end: then the sum over all tenants is right. Seeks the rowid.
INSERT INTO timer_counts (tenant_id)
SELECT CAST(tenant_id AS TEXT)
  FROM timer_schedules
 WHERE rowid = ?1 AND tenant_id IS NOT NULL
    ON CONFLICT (tenant_id) DO NOTHING
