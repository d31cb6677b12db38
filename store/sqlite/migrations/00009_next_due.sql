-- +goose Up

-- The earliest due time of a tenant's timers that wait, null if none does. What is due
-- is found by it, tenant by tenant: an index of all timers by due time would cost each
-- command whose timer is due at a random time a page of its own (ADR 36).
ALTER TABLE timer_counts ADD COLUMN next_due INTEGER;

UPDATE timer_counts
   SET next_due = (SELECT min(due_at) FROM timer_schedules s WHERE s.tenant_id = timer_counts.tenant_id AND s.state = 'Scheduled');

CREATE INDEX idx_timer_counts_next_due
    ON timer_counts (next_due)
 WHERE next_due IS NOT NULL;

DROP INDEX IF EXISTS idx_timer_schedules_due_at;

DROP TRIGGER timer_schedules_deleted;

-- +goose StatementBegin
CREATE TRIGGER timer_schedules_deleted
 AFTER DELETE ON timer_schedules
 BEGIN
       UPDATE timer_counts
          SET scheduled = scheduled - (OLD.state = 'Scheduled'),
              reached = reached - (OLD.state = 'Reached'),
              canceled = canceled - (OLD.state = 'Canceled'),
              next_due = CASE WHEN OLD.state = 'Scheduled'
                              THEN (SELECT min(due_at) FROM timer_schedules WHERE tenant_id = OLD.tenant_id AND state = 'Scheduled')
                              ELSE next_due
                          END
        WHERE tenant_id = OLD.tenant_id;
       DELETE FROM timer_counts
        WHERE tenant_id = OLD.tenant_id AND scheduled = 0 AND reached = 0 AND canceled = 0;
   END;
-- +goose StatementEnd

-- A due time that is changed, by a command or by hand.
-- +goose StatementBegin
CREATE TRIGGER timer_schedules_moved
 AFTER UPDATE OF due_at ON timer_schedules
 BEGIN
       UPDATE timer_counts
          SET next_due = (SELECT min(due_at) FROM timer_schedules WHERE tenant_id = NEW.tenant_id AND state = 'Scheduled')
        WHERE tenant_id = NEW.tenant_id;
   END;
-- +goose StatementEnd
