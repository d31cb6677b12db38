-- End the pause of a tenant, or of all tenants. Seeks the primary key.
DELETE FROM timer_firing
 WHERE tenant_id = $1
