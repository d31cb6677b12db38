-- +goose Up

-- How many timers each tenant has in which state. Kept by every transaction that
-- changes timers, so that nobody counts millions of rows; deletes, which nobody
-- waits for and which a host's foreign key may cause, are counted by a trigger.
-- The row of no tenant says how many events are in the outbox.
CREATE TABLE timer_counts (
    tenant_id TEXT    NOT NULL PRIMARY KEY,
    scheduled INTEGER NOT NULL DEFAULT 0,
    reached   INTEGER NOT NULL DEFAULT 0,
    canceled  INTEGER NOT NULL DEFAULT 0,
    outbox    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled)
SELECT tenant_id,
       count(*) FILTER (WHERE state = 'Scheduled'),
       count(*) FILTER (WHERE state = 'Reached'),
       count(*) FILTER (WHERE state = 'Canceled')
  FROM timer_schedules
 GROUP BY tenant_id;

INSERT INTO timer_counts (tenant_id, outbox)
SELECT '', count(*) FROM timer_outbox;

-- +goose StatementBegin
CREATE TRIGGER timer_schedules_deleted
 AFTER DELETE ON timer_schedules
 BEGIN
       UPDATE timer_counts
          SET scheduled = scheduled - (OLD.state = 'Scheduled'),
              reached = reached - (OLD.state = 'Reached'),
              canceled = canceled - (OLD.state = 'Canceled')
        WHERE tenant_id = OLD.tenant_id;
       DELETE FROM timer_counts
        WHERE tenant_id = OLD.tenant_id AND scheduled = 0 AND reached = 0 AND canceled = 0;
   END;
-- +goose StatementEnd

-- Retention: what is over, oldest first.
CREATE INDEX idx_timer_schedules_over
    ON timer_schedules (coalesce(reached_at, canceled_at))
 WHERE state <> 'Scheduled';
