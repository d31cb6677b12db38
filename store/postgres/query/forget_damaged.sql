-- Delete the rows of tenant $1 that were set aside. Walks them all, which are few.
DELETE FROM timer_damaged
 WHERE tenant_id = $1
