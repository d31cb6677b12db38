-- Count timers that were loaded for a tenant, and keep the earliest due time of those that
-- wait: there is no index yet to find it by. Seeks the primary key.
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, next_due)
VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (tenant_id) DO UPDATE
   SET scheduled = scheduled + excluded.scheduled,
       reached = reached + excluded.reached,
       canceled = canceled + excluded.canceled,
       next_due = min(coalesce(next_due, excluded.next_due), coalesce(excluded.next_due, next_due))
