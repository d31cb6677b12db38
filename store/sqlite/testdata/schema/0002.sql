-- Schema 1.
BEGIN;
CREATE TABLE timer_schema (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    version_id INTEGER NOT NULL,
    is_applied INTEGER NOT NULL,
    tstamp     TIMESTAMP DEFAULT (datetime('now'))
);
INSERT INTO timer_schema (version_id, is_applied) VALUES (0, true);

-- One row a timer. Times are Unix milliseconds, UTC. A rowid table: an insert
-- with its indexes takes 8.9 µs, WITHOUT ROWID 12.4 (measured 2026-09).
CREATE TABLE timer_schedules (
    tenant_id       TEXT    NOT NULL,
    service_call_id TEXT    NOT NULL,
    correlation_id  TEXT,             -- of the command that set the due time
    due_at          INTEGER,          -- null for a tombstone: canceled before it was scheduled
    expires_at      INTEGER,          -- from when on it must not fire any more; null if it may at any time
    registered_at   INTEGER NOT NULL, -- first acceptance; never moves
    reached_at      INTEGER,          -- when it was marked: it fired, or it expired
    canceled_at     INTEGER,          -- when it was last canceled, by our clock: retention counts from it
    state           TEXT    NOT NULL,
    command_at      INTEGER NOT NULL, -- version of the newest command: its timestamp,
    command_id      TEXT    NOT NULL, -- and its id
    traceparent     TEXT,
    tracestate      TEXT,
    data            TEXT,             -- what travels with it: a JSON value as it was written; null if there is none
    PRIMARY KEY (tenant_id, service_call_id),
    CONSTRAINT tenant_id_has_1_to_64_characters        CHECK (length(tenant_id) BETWEEN 1 AND 64),
    CONSTRAINT service_call_id_has_1_to_128_characters CHECK (length(service_call_id) BETWEEN 1 AND 128),
    CONSTRAINT command_id_has_1_to_128_characters      CHECK (length(command_id) BETWEEN 1 AND 128),
    CONSTRAINT command_at_is_not_negative              CHECK (command_at >= 0),
    CONSTRAINT state_is_known                          CHECK (state = 'Scheduled' OR state = 'Reached' OR state = 'Expired' OR state = 'Canceled'),
    CONSTRAINT only_a_tombstone_has_no_due_at          CHECK (state = 'Canceled' OR due_at IS NOT NULL),
    CONSTRAINT reached_at_goes_with_a_mark             CHECK ((state = 'Reached' OR state = 'Expired') = (reached_at IS NOT NULL)),
    CONSTRAINT expired_goes_with_expires_at            CHECK (reached_at IS NULL OR (state = 'Expired') = (expires_at IS NOT NULL AND expires_at <= reached_at)),
    CONSTRAINT expires_at_is_after_due_at              CHECK (expires_at > due_at),
    CONSTRAINT canceled_at_goes_with_canceled          CHECK ((state = 'Canceled') = (canceled_at IS NOT NULL)),
    CONSTRAINT never_early                             CHECK (reached_at >= due_at),
    CONSTRAINT data_has_at_most_4096_bytes             CHECK (length(CAST(data AS BLOB)) <= 4096)
) STRICT;

-- Fairness, and reads of a tenant. Partial, as all of them: fired timers cost nothing.
CREATE INDEX idx_timer_schedules_tenant_due
    ON timer_schedules (tenant_id, due_at)
 WHERE state = 'Scheduled';

-- Operators who follow a request.
CREATE INDEX idx_timer_schedules_correlation_id
    ON timer_schedules (correlation_id)
 WHERE correlation_id IS NOT NULL;

-- Retention: what is over, oldest first.
CREATE INDEX idx_timer_schedules_over
    ON timer_schedules (coalesce(reached_at, canceled_at))
 WHERE state <> 'Scheduled';

-- The same rows for people.
CREATE VIEW timer_schedules_iso AS
SELECT tenant_id,
       service_call_id,
       correlation_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', expires_at / 1000.0, 'unixepoch') AS expires_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', registered_at / 1000.0, 'unixepoch') AS registered_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', reached_at / 1000.0, 'unixepoch') AS reached_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', canceled_at / 1000.0, 'unixepoch') AS canceled_at,
       state,
       strftime('%Y-%m-%dT%H:%M:%fZ', command_at / 1000.0, 'unixepoch') AS command_at,
       command_id,
       traceparent,
       tracestate
  FROM timer_schedules;

-- Events that wait for the broker. AUTOINCREMENT, since a number must never be
-- used again: a delete that is repeated, because it was reported as failed,
-- would remove an event that came later.
CREATE TABLE timer_outbox (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    id          TEXT    NOT NULL, -- of the event, the broker's dedupe id
    payload     BLOB    NOT NULL, -- the envelope
    headers     TEXT    NOT NULL, -- a JSON object
    appended_at INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT
) STRICT;

-- Events that the broker refuses for good.
CREATE TABLE timer_outbox_parked (
    seq         INTEGER PRIMARY KEY,
    id          TEXT    NOT NULL,
    payload     BLOB    NOT NULL,
    headers     TEXT    NOT NULL,
    appended_at INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    last_error  TEXT    NOT NULL,
    parked_at   INTEGER NOT NULL
) STRICT;

-- Parked events of a tenant, in their order.
CREATE INDEX idx_timer_outbox_parked_tenant
    ON timer_outbox_parked (headers ->> '$.tenantId');

-- Events whose publish failed, until they are published or parked. They are apart
-- from timer_outbox so that any number of them costs what is sent meanwhile nothing.
CREATE TABLE timer_outbox_deferred (
    seq         INTEGER PRIMARY KEY, -- as in timer_outbox
    id          TEXT    NOT NULL,
    payload     BLOB    NOT NULL,
    headers     TEXT    NOT NULL,
    appended_at INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    last_error  TEXT    NOT NULL,
    destination TEXT    NOT NULL, -- what failed: the topic, and its partition if that is known, or the tenant and the prefix of a handler
    retry_at    INTEGER NOT NULL,
    unclaimed   INTEGER NOT NULL DEFAULT 0 -- 1: no handler wants it, and the destination is its service call
) STRICT;

-- Each round of retries takes the first rows of some destinations.
CREATE INDEX idx_timer_outbox_deferred_retry
    ON timer_outbox_deferred (unclaimed, destination, retry_at);

-- How many timers each tenant has in which state. Kept by every transaction that
-- changes timers, so that nobody counts millions of rows; deletes, which nobody
-- waits for and which a host's foreign key may cause, are counted by a trigger.
-- The row of no tenant says how many events are in the outbox.
CREATE TABLE timer_counts (
    tenant_id TEXT    NOT NULL PRIMARY KEY,
    scheduled INTEGER NOT NULL DEFAULT 0,
    reached   INTEGER NOT NULL DEFAULT 0,
    expired   INTEGER NOT NULL DEFAULT 0,
    canceled  INTEGER NOT NULL DEFAULT 0,
    outbox    INTEGER NOT NULL DEFAULT 0,
    next_due  INTEGER -- the earliest due time of the timers that wait; null if none does
) STRICT, WITHOUT ROWID;

INSERT INTO timer_counts (tenant_id) VALUES ('');

-- What is due is found tenant by tenant: an index of all timers by due time would cost
-- each command whose timer is due at a random time a page of its own (docs/adr/measured.md).
CREATE INDEX idx_timer_counts_next_due
    ON timer_counts (next_due)
 WHERE next_due IS NOT NULL;

CREATE TRIGGER timer_schedules_deleted
 AFTER DELETE ON timer_schedules
 BEGIN
       UPDATE timer_counts
          SET scheduled = scheduled - (OLD.state = 'Scheduled'),
              reached = reached - (OLD.state = 'Reached'),
              expired = expired - (OLD.state = 'Expired'),
              canceled = canceled - (OLD.state = 'Canceled'),
              next_due = CASE WHEN OLD.state = 'Scheduled'
                              THEN (SELECT min(due_at) FROM timer_schedules WHERE tenant_id = OLD.tenant_id AND state = 'Scheduled')
                              ELSE next_due
                          END
        WHERE tenant_id = OLD.tenant_id;
       DELETE FROM timer_counts
        WHERE tenant_id = OLD.tenant_id AND scheduled = 0 AND reached = 0 AND expired = 0 AND canceled = 0;
   END;

-- A due time that is changed, by a command or by hand.
CREATE TRIGGER timer_schedules_moved
 AFTER UPDATE OF due_at ON timer_schedules
 BEGIN
       UPDATE timer_counts
          SET next_due = (SELECT min(due_at) FROM timer_schedules WHERE tenant_id = NEW.tenant_id AND state = 'Scheduled')
        WHERE tenant_id = NEW.tenant_id;
   END;

-- Which database this is: one row, with a UUID (version 4). A broker keeps the same
-- one, so that no two databases share its commands. A backup has it too; an import is
-- another database.
CREATE TABLE timer_database (
    one           INTEGER PRIMARY KEY,
    id            TEXT NOT NULL,
    CONSTRAINT one_row              CHECK (one = 1),
    CONSTRAINT id_has_36_characters CHECK (length(id) = 36)
) STRICT;

INSERT INTO timer_database (one, id)
VALUES (1, lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' ||
                 substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))));

-- Tenants whose timers do not fire, since an operator paused that. The row of no tenant is
-- about all. A backup of a database that is paused is paused.
CREATE TABLE timer_firing (
    tenant_id    TEXT    NOT NULL PRIMARY KEY,
    paused_at    INTEGER NOT NULL,
    paused_until INTEGER, -- null: until it is resumed
    paused_by    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- How far each log of the broker is known to this database: noted in the transactions
-- that apply what was read of it. A backup has the positions that it stands at, so a
-- restored one is known to be behind. An export has none.
CREATE TABLE timer_positions (
    log       TEXT    NOT NULL PRIMARY KEY,
    committed INTEGER NOT NULL, -- all commands up to this number are here, or are dead letters
    observed  INTEGER NOT NULL, -- the highest number that was received or published
    CONSTRAINT log_has_1_to_512_bytes    CHECK (length(CAST(log AS BLOB)) BETWEEN 1 AND 512),
    CONSTRAINT committed_is_not_negative CHECK (committed >= 0),
    CONSTRAINT observed_is_not_negative  CHECK (observed >= 0)
) STRICT, WITHOUT ROWID;
INSERT INTO timer_schema (version_id, is_applied) VALUES (1, true);
COMMIT;

-- Schema 2.
BEGIN;

-- Messages that wait: their commands exceed a quota, or their handling failed. As they came,
-- so that their handling can begin again. AUTOINCREMENT, as in timer_outbox.
CREATE TABLE timer_inbox (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id  TEXT    NOT NULL, -- _ if the message names none
    retry_at   INTEGER,          -- when it is handled again; null for a selection that was applied
    arrived_at INTEGER NOT NULL, -- by our clock
    number     INTEGER,          -- its number in the log; null if it came from none
    bytes      INTEGER NOT NULL, -- of headers and body
    log        TEXT,
    topic      TEXT    NOT NULL, -- where it was published, and its position there: a dead letter names both
    position   TEXT    NOT NULL,
    message_id TEXT    NOT NULL, -- as the broker has it
    headers    TEXT    NOT NULL, -- a JSON object
    body       BLOB    NOT NULL,
    reason     TEXT    NOT NULL,
    attempts   INTEGER NOT NULL DEFAULT 0, -- that failed
    last_error TEXT    NOT NULL DEFAULT '',
    CONSTRAINT reason_is_known           CHECK (reason IN ('over_quota', 'failed', 'applied')),
    CONSTRAINT only_applied_never_retry  CHECK ((reason = 'applied') = (retry_at IS NULL)),
    CONSTRAINT number_goes_with_log      CHECK ((number IS NULL) = (log IS NULL))
) STRICT;

-- What is to be handled again, tenant by tenant. The last columns are for counts, which then
-- read no bodies.
CREATE INDEX idx_timer_inbox_retry
    ON timer_inbox (tenant_id, retry_at, seq, reason, bytes, arrived_at)
 WHERE retry_at IS NOT NULL;

-- The selections that were applied, of a tenant.
CREATE INDEX idx_timer_inbox_applied
    ON timer_inbox (tenant_id, seq)
 WHERE retry_at IS NULL;

-- A start leaves out what waits here when it reads the log again. A message that is delivered
-- again is not added again.
CREATE UNIQUE INDEX idx_timer_inbox_number
    ON timer_inbox (log, number)
 WHERE log IS NOT NULL;

-- How far this database is: every message of a kind up to the number has done here what it
-- has to do. A start reads what lies above. A backup has the numbers that it stands at; an
-- export has none. The row without a log counts how often the numbers were written, by which
-- the process that wrote them notices that the file was replaced by an older one.
CREATE TABLE timer_numbers (
    number INTEGER NOT NULL,
    broker TEXT    NOT NULL, -- id of the broker; empty for what an earlier version wrote
    log    TEXT    NOT NULL,
    kind   TEXT    NOT NULL, -- of the messages
    PRIMARY KEY (broker, log, kind),
    CONSTRAINT number_is_not_negative CHECK (number >= 0)
) STRICT, WITHOUT ROWID;

-- What an earlier version knew of the commands, and of events that may have been on their way.
INSERT INTO timer_numbers (broker, log, kind, number)
SELECT '', log, kind, CASE WHEN committed > 0 THEN committed ELSE max(0, observed - 20000) END
  FROM timer_positions
 CROSS JOIN (SELECT 'commands' AS kind UNION ALL SELECT 'events' UNION ALL SELECT 'dead letters')
 WHERE committed > 0 OR kind <> 'commands';

-- What operators decided about a tenant, or about all if it is empty: that firing is paused
-- or resumed, or that the tenant is forgotten. The last decision of each kind stays, with its
-- time, so that an older one that is read from the broker changes nothing. Whether firing is
-- paused, timer_firing says.
CREATE TABLE timer_decisions (
    decided_at INTEGER NOT NULL,
    published  INTEGER NOT NULL, -- 1 if the broker has its mark
    tenant_id  TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    PRIMARY KEY (tenant_id, kind),
    CONSTRAINT kind_is_known CHECK (kind IN ('firing', 'forgotten'))
) STRICT, WITHOUT ROWID;

INSERT INTO timer_decisions (tenant_id, kind, decided_at, published)
SELECT tenant_id, 'firing', paused_at, 0
  FROM timer_firing;

-- The oldest deferred event, without snoozed ones, which a handler wants later and whose destinations begin
-- with ~.
CREATE INDEX idx_timer_outbox_deferred_oldest
    ON timer_outbox_deferred (seq)
 WHERE destination < '~';
INSERT INTO timer_schema (version_id, is_applied) VALUES (2, true);
COMMIT;

-- Rows.
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('ACME', 'upper', NULL, 1905249600000, 1905246000000, NULL, NULL, 'Scheduled', 1905246000000, '0194-up', NULL, NULL);
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('acme', 'canceled', 'req-1', 1905249600000, 1905246000000, NULL, 1905249599999, 'Canceled', 1905249599999, '0194-cancel', NULL, NULL);
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('acme', 'reached', 'req-2', 1905249600000, 1905246000000, 1905249600002, NULL, 'Reached', 1905246000000, '0194-reached', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'a=b');
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('acme', 'scheduled', 'req-3', 1905267600000, 1905246000000, NULL, NULL, 'Scheduled', 1905246000001, '0194-scheduled', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', 'a=b<&>');
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('acme', 'tombstone', NULL, NULL, 1905249600000, NULL, 1905249600000, 'Canceled', 1905249600000, '0194-tombstone', NULL, NULL);
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('beta', 'a:1.b_c-DDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDDD', NULL, 7289654399999, 1905249600000, NULL, NULL, 'Scheduled', 9007199254740991, '~"\', NULL, NULL);
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate)
VALUES ('beta', 'reached', NULL, 1905249600000, 1905249600000, 1905249600000, NULL, 'Reached', 1905249600000, '0194-beta', NULL, NULL);
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate, data)
VALUES ('acme', 'with-data', 'req-4', 1905267600000, 1905249600000, NULL, NULL, 'Scheduled', 1905249600000, '0194-data', NULL, NULL, '{"a" : "é ", "its": [1, 2]}');
INSERT INTO timer_schedules (tenant_id, service_call_id, correlation_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id, traceparent, tracestate, data)
VALUES ('acme', 'with-data-reached', NULL, 1905249600000, 1905249600000, 1905249600007, NULL, 'Reached', 1905249600000, '0194-data-2', NULL, NULL, '"kept"');
INSERT INTO timer_outbox (seq, id, payload, headers, appended_at, attempts, last_error)
VALUES (3, '0195-reached', CAST('{"id":"0195-reached","type":"DueTimeReached","tenantId":"acme","payload":{"serviceCallId":"reached"}}' AS BLOB), '{"messageId":"0195-reached","serviceCallId":"reached","tenantId":"acme","type":"DueTimeReached"}', 1905249600002, 0, NULL);
INSERT INTO timer_outbox (seq, id, payload, headers, appended_at, attempts, last_error)
VALUES (4, '0195-beta', CAST('{"id":"0195-beta","type":"DueTimeReached","tenantId":"beta","payload":{"serviceCallId":"reached"}}' AS BLOB), '{"messageId":"0195-beta","serviceCallId":"reached","tenantId":"beta","type":"DueTimeReached"}', 1905249600002, 2, 'no answer');
INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
VALUES (1, '0195-parked', CAST('{"id":"0195-parked","type":"DueTimeReached","tenantId":"acme","payload":{"serviceCallId":"parked"}}' AS BLOB), '{"messageId":"0195-parked","serviceCallId":"parked","tenantId":"acme","type":"DueTimeReached"}', 1905249600002, 5, 'too large', 1905253200000);
INSERT INTO timer_outbox_deferred (seq, id, payload, headers, appended_at, attempts, last_error, destination, retry_at)
VALUES (2, '0195-deferred', CAST('{"id":"0195-deferred","type":"DueTimeReached","tenantId":"beta","payload":{"serviceCallId":"deferred"}}' AS BLOB), '{"messageId":"0195-deferred","serviceCallId":"deferred","tenantId":"beta","type":"DueTimeReached"}', 1905249600002, 3, 'no answer', 'events', 1905249600009);
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, next_due) VALUES ('ACME', 1, 0, 0, 1905249600000);
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, next_due) VALUES ('acme', 2, 2, 2, 1905267600000);
INSERT INTO timer_counts (tenant_id, scheduled, reached, canceled, next_due) VALUES ('beta', 1, 1, 0, 7289654399999);
UPDATE timer_counts SET outbox = 3 WHERE tenant_id = '';
UPDATE timer_database SET id = '3b2f0c52-7a3e-4d0e-9f6b-0d9f5f1f2a11';
INSERT INTO timer_firing (tenant_id, paused_at, paused_until, paused_by) VALUES ('', 1905253200000, NULL, 'an operator');
INSERT INTO timer_firing (tenant_id, paused_at, paused_until, paused_by) VALUES ('acme', 1905253200000, 7289654400000, 'a guest');
INSERT INTO timer_positions (log, committed, observed) VALUES ('svc@1', 17, 23);
INSERT INTO timer_inbox (seq, tenant_id, retry_at, arrived_at, number, bytes, log, topic, position, message_id, headers, body, reason, attempts, last_error)
VALUES (7, 'acme', 1905249600009, 1905249600002, 12, 29, 'svc@1', 'svc.commands', '12', '0196-quota', '{"tenantId":"acme"}', CAST('{"id":"0"} ' AS BLOB), 'over_quota', 0, '');
INSERT INTO timer_inbox (seq, tenant_id, retry_at, arrived_at, number, bytes, log, topic, position, message_id, headers, body, reason, attempts, last_error)
VALUES (8, '_', 1905249600009, 1905249600003, NULL, 4, NULL, 'svc.commands', '', '0196-failed', '{}', x'00ff', 'failed', 3, 'no answer');
INSERT INTO timer_inbox (seq, tenant_id, retry_at, arrived_at, number, bytes, log, topic, position, message_id, headers, body, reason, attempts, last_error)
VALUES (9, 'beta', NULL, 1905249600004, 14, 30, 'svc@1', 'svc.commands', '14', '0196-applied', '{"tenantId":"beta"}', CAST('{"id":"00"} ' AS BLOB), 'applied', 0, '');
INSERT INTO timer_numbers (number, broker, log, kind) VALUES (17, 'nats-1', 'svc@1', 'commands');
INSERT INTO timer_numbers (number, broker, log, kind) VALUES (23, 'nats-1', 'svc@1', 'events');
INSERT INTO timer_decisions (decided_at, published, tenant_id, kind) VALUES (1905253200000, 1, '', 'firing');
INSERT INTO timer_decisions (decided_at, published, tenant_id, kind) VALUES (1905253200001, 0, 'gone', 'forgotten');
