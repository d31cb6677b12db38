-- Delete the first ?3 events of tenant ?1 from the outbox that were appended until ?2. Scans it:
-- an index of tenants would cost every event.
DELETE FROM timer_outbox
 WHERE seq IN (
       SELECT seq
         FROM timer_outbox
        WHERE headers ->> '$.tenantId' = ?1 AND appended_at <= ?2
        LIMIT ?3)
