-- Delete the first ?3 parked events of tenant ?1 that were appended until ?2, or at any time if
-- that is null. Seeks idx_timer_outbox_parked_tenant, and goes over events that were appended
-- later.
DELETE FROM timer_outbox_parked
 WHERE seq IN (
       SELECT seq
         FROM timer_outbox_parked
        WHERE headers ->> '$.tenantId' = ?1 AND (?2 IS NULL OR appended_at <= ?2)
        ORDER BY seq
        LIMIT ?3)
