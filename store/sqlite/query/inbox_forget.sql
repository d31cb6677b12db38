-- Delete the first ?3 messages of tenant ?1 that arrived before ?2, or any if that is null:
-- the waiting ones, then the selections that were applied. Seeks both indexes of tenants, and
-- goes over messages that arrived later.
DELETE FROM timer_inbox
 WHERE seq IN (
       SELECT seq
         FROM (SELECT seq
                 FROM timer_inbox
                WHERE tenant_id = ?1 AND retry_at IS NOT NULL AND (?2 IS NULL OR arrived_at < ?2)
                LIMIT ?3)
        UNION ALL
       SELECT seq
         FROM (SELECT seq
                 FROM timer_inbox
                WHERE tenant_id = ?1 AND retry_at IS NULL AND (?2 IS NULL OR arrived_at < ?2)
                LIMIT ?3)
        LIMIT ?3)
