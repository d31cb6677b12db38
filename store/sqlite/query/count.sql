-- Count what a transaction did for a tenant. Seeks the primary key.
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, outbox)
VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (tenant_id) DO UPDATE
   SET scheduled = scheduled + excluded.scheduled,
       reached = reached + excluded.reached,
       canceled = canceled + excluded.canceled,
       outbox = outbox + excluded.outbox
