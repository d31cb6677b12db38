-- Delete the first ?2 parked events of tenant ?1. Seeks
-- idx_timer_outbox_parked_tenant.
DELETE FROM timer_outbox_parked
 WHERE seq IN (
       SELECT seq
         FROM timer_outbox_parked
        WHERE headers ->> '$.tenantId' = ?1
        ORDER BY seq
        LIMIT ?2)
