-- End the pause of a tenant, or of all. Seeks the primary key.
DELETE FROM timer_firing
 WHERE tenant_id = ?1
