-- Delete the damaged rows of tenant ?1. Walks them all, which are few.
DELETE FROM timer_damaged
 WHERE tenant_id = ?1
