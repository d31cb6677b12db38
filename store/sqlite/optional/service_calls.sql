-- Ties timers to the host's service calls. SQLite adds a foreign key to a table
-- only by making the table anew.
CREATE TABLE timer_schedules_new (
    tenant_id       TEXT    NOT NULL,
    service_call_id TEXT    NOT NULL,
    correlation_id  TEXT,             -- of the command that set the due time
    due_at          INTEGER,          -- null for a tombstone: canceled before it was scheduled
    registered_at   INTEGER NOT NULL, -- first acceptance; never moves
    reached_at      INTEGER,
    canceled_at     INTEGER,          -- when it was last canceled, by our clock: retention counts from it
    state           TEXT    NOT NULL,
    command_at      INTEGER NOT NULL, -- version of the newest command: its timestamp,
    command_id      TEXT    NOT NULL, -- and its id
    traceparent     TEXT,
    tracestate      TEXT,
    PRIMARY KEY (tenant_id, service_call_id),
    FOREIGN KEY (tenant_id, service_call_id) REFERENCES service_calls (tenant_id, service_call_id) ON DELETE CASCADE,
    CHECK (state IN ('Scheduled', 'Reached', 'Canceled')),
    CHECK ((state = 'Reached') = (reached_at IS NOT NULL)),
    CHECK ((state = 'Canceled') = (canceled_at IS NOT NULL)),
    CHECK (state = 'Canceled' OR due_at IS NOT NULL),
    CHECK (reached_at IS NULL OR reached_at >= due_at)
) STRICT;

INSERT INTO timer_schedules_new
SELECT * FROM timer_schedules;

DROP VIEW timer_schedules_iso;
DROP TABLE timer_schedules;
ALTER TABLE timer_schedules_new RENAME TO timer_schedules;

CREATE INDEX idx_timer_schedules_due_at
    ON timer_schedules (due_at)
 WHERE state = 'Scheduled';

CREATE INDEX idx_timer_schedules_tenant_due
    ON timer_schedules (tenant_id, due_at)
 WHERE state = 'Scheduled';

CREATE INDEX idx_timer_schedules_correlation_id
    ON timer_schedules (correlation_id)
 WHERE correlation_id IS NOT NULL;

CREATE VIEW timer_schedules_iso AS
SELECT tenant_id,
       service_call_id,
       correlation_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', registered_at / 1000.0, 'unixepoch') AS registered_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', reached_at / 1000.0, 'unixepoch') AS reached_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', canceled_at / 1000.0, 'unixepoch') AS canceled_at,
       state,
       strftime('%Y-%m-%dT%H:%M:%fZ', command_at / 1000.0, 'unixepoch') AS command_at,
       command_id,
       traceparent,
       tracestate
  FROM timer_schedules;
