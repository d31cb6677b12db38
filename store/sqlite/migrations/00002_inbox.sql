-- +goose Up

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
