-- +goose Up
SET LOCAL lock_timeout = '2s';

-- Messages that wait: their commands exceed a quota, or their handling failed. As they came,
-- so that their handling can begin again.
CREATE TABLE timer_inbox (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    retry_at   timestamptz(3),            -- when it is handled again; null for a selection that was applied
    arrived_at timestamptz(3) NOT NULL,   -- by our clock
    number     bigint,                    -- its number in the log; null if it came from none
    attempts   integer NOT NULL DEFAULT 0, -- that failed
    bytes      integer NOT NULL,          -- of headers and body
    tenant_id  text COLLATE "C" NOT NULL, -- _ if the message names none
    log        text COLLATE "C",
    topic      text COLLATE "C" NOT NULL, -- where it was published, and its position there: a dead letter names both
    position   text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL, -- as the broker has it
    reason     text COLLATE "C" NOT NULL,
    headers    text COLLATE "C" NOT NULL, -- a JSON object
    last_error text NOT NULL DEFAULT '',
    body       bytea NOT NULL,
    CONSTRAINT reason_is_known          CHECK (reason IN ('over_quota', 'failed', 'applied')),
    CONSTRAINT only_applied_never_retry CHECK ((reason = 'applied') = (retry_at IS NULL)),
    CONSTRAINT number_goes_with_log     CHECK ((number IS NULL) = (log IS NULL))
) WITH (
    -- A queue, as timer_outbox.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- What is to be handled again, tenant by tenant. The included columns are for counts, which
-- then read no bodies.
CREATE INDEX idx_timer_inbox_retry
    ON timer_inbox (tenant_id, retry_at, seq) INCLUDE (reason, bytes, arrived_at)
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
-- export has none. The last row of a log and kind counts; the others are deleted later, since
-- a row that is updated would have more and more dead versions to step over while another
-- transaction holds a snapshot.
CREATE TABLE timer_numbers (
    seq    bigint GENERATED ALWAYS AS IDENTITY,
    number bigint NOT NULL,
    broker text COLLATE "C" NOT NULL, -- id of the broker; empty for what an earlier version wrote
    log    text COLLATE "C" NOT NULL,
    kind   text COLLATE "C" NOT NULL, -- of the messages
    PRIMARY KEY (broker, log, kind, seq),
    CONSTRAINT number_is_not_negative CHECK (number >= 0)
) WITH (
    -- A queue, as timer_outbox.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

-- The last row of all: a process that has seen a later one knows that the rows are older. The
-- number is an expression so that no plan for the rows of a log takes this index.
CREATE INDEX idx_timer_numbers_seq
    ON timer_numbers ((seq + 0));

-- What an earlier version knew of the commands, and of events that may have been on their way.
INSERT INTO timer_numbers (broker, log, kind, number)
SELECT '', log, kind, CASE WHEN max(committed) > 0 THEN max(committed) ELSE greatest(0, max(observed) - 20000) END
  FROM timer_positions
 CROSS JOIN unnest(ARRAY['commands', 'events', 'dead letters']) AS kind
 GROUP BY log, kind
HAVING max(committed) > 0 OR kind <> 'commands';

-- What operators decided about a tenant, or about all if it is empty: that firing is paused
-- or resumed, or that the tenant is forgotten. The last decision of each kind stays, with its
-- time, so that an older one that is read from the broker changes nothing. Whether firing is
-- paused, timer_firing says.
CREATE TABLE timer_decisions (
    decided_at timestamptz(3) NOT NULL,
    published  boolean NOT NULL, -- whether the broker has its mark
    tenant_id  text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, kind),
    CONSTRAINT kind_is_known CHECK (kind IN ('firing', 'forgotten'))
);

INSERT INTO timer_decisions (tenant_id, kind, decided_at, published)
SELECT tenant_id, 'firing', paused_at, false
  FROM timer_firing;

-- Timers that another transaction has locked while commands for them wait. They don't fire until
-- the commands were applied, or until the time given, if the process that waits has died.
CREATE TABLE timer_awaited (
    until           timestamptz(3) NOT NULL, -- by the clock of the server
    tenant_id       text COLLATE "C" NOT NULL,
    service_call_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant_id, service_call_id)
);

CREATE INDEX idx_timer_awaited_until
    ON timer_awaited (until);

COMMENT ON TABLE timer_schema IS 'schema 2, instances from 1 on may go on';

-- The oldest deferred event, without snoozed ones, which a handler wants later and whose destinations begin
-- with ~.
CREATE INDEX idx_timer_outbox_deferred_oldest
    ON timer_outbox_deferred (shard, seq)
 WHERE destination < '~';
