-- Add the changes of a transaction to the counts of a tenant, and find its next due time. Seeks
-- idx_timer_schedules_tenant_due, and the primary key.
INSERT INTO timer_counts (tenant_id, scheduled, reached, expired, canceled, outbox, next_due)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, (SELECT min(due_at) FROM timer_schedules WHERE tenant_id = ?1 AND state = 'Scheduled'))
    ON CONFLICT (tenant_id) DO UPDATE
   SET scheduled = scheduled + excluded.scheduled,
       reached = reached + excluded.reached,
       expired = expired + excluded.expired,
       canceled = canceled + excluded.canceled,
       outbox = outbox + excluded.outbox,
       next_due = excluded.next_due
