-- Record that the broker has the mark of a decision about tenant ?1, of kind ?2, at ?3.
-- Seeks the primary key.
UPDATE timer_decisions
   SET published = 1
 WHERE tenant_id = ?1 AND kind = ?2 AND decided_at = ?3
