-- +goose Up

-- One row a timer. Columns of a fixed size come first, so that none is padded.
-- Times are kept to the millisecond by their type: what comes finer is rounded.
-- Texts compare byte by byte, as Go does, whatever the database's collation.
CREATE TABLE timer_schedules (
    due_at          timestamptz(3),            -- null for a tombstone: canceled before it was scheduled
    expires_at      timestamptz(3),            -- from when on it must not fire any more; null if it may at any time
    registered_at   timestamptz(3) NOT NULL,   -- first acceptance; never moves
    reached_at      timestamptz(3),            -- when it was marked: it fired, or it expired
    canceled_at     timestamptz(3),            -- when it was last canceled, by our clock: retention counts from it
    command_at      bigint NOT NULL,           -- version of the newest command: its timestamp as it came, in Unix milliseconds,
    command_id      text COLLATE "C" NOT NULL, -- and its id
    tenant_id       text COLLATE "C" NOT NULL,
    service_call_id text COLLATE "C" NOT NULL,
    state           text COLLATE "C" NOT NULL,
    correlation_id  text COLLATE "C",          -- of the command that set the due time
    traceparent     text COLLATE "C",
    tracestate      text COLLATE "C",
    data            text COLLATE "C",          -- what travels with it: a JSON value as it was written, which neither json nor jsonb would keep
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
    CONSTRAINT data_has_at_most_4096_bytes             CHECK (octet_length(data) <= 4096)
) WITH (
    -- Every timer leaves a dead row when it fires, at the end of the index where
    -- the poll begins. The default waits until a fifth of the table is dead, which
    -- for ten million timers is two million entries to step over.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05
);

-- The poll. Partial, as all of them: fired timers cost nothing. Each timer has an entry
-- of its own: one entry for all that are due at the same time would be dead only when all
-- of them have fired, and each claim would step over those that had.
CREATE INDEX idx_timer_schedules_due_at
    ON timer_schedules (due_at)
  WITH (deduplicate_items = off)
 WHERE state = 'Scheduled';

-- Fairness, and reads of a tenant.
CREATE INDEX idx_timer_schedules_tenant_due
    ON timer_schedules (tenant_id, due_at)
  WITH (deduplicate_items = off)
 WHERE state = 'Scheduled';

-- Operators who follow a request.
CREATE INDEX idx_timer_schedules_correlation_id
    ON timer_schedules (correlation_id)
 WHERE correlation_id IS NOT NULL;

-- Retention.
CREATE INDEX idx_timer_schedules_over
    ON timer_schedules ((coalesce(reached_at, canceled_at)))
 WHERE state <> 'Scheduled';

-- The same rows for people.
CREATE VIEW timer_schedules_iso AS
SELECT tenant_id,
       service_call_id,
       correlation_id,
       to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS due_at,
       to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS expires_at,
       to_char(registered_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS registered_at,
       to_char(reached_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS reached_at,
       to_char(canceled_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS canceled_at,
       state,
       to_char(timestamp 'epoch' + command_at * interval '1 millisecond', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS command_at,
       command_id,
       traceparent,
       tracestate
  FROM timer_schedules;

-- Events that wait for the broker, in shards: each is forwarded by one instance
-- at a time. A number is never used again, not even after a rollback: a delete
-- that is repeated, because it was reported as failed, would remove an event that
-- came later.
CREATE TABLE timer_outbox (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    appended_at timestamptz(3) NOT NULL,
    attempts    integer NOT NULL DEFAULT 0,
    shard       smallint NOT NULL,
    id          text COLLATE "C" NOT NULL, -- of the event, the broker's dedupe id
    payload     bytea NOT NULL,            -- the envelope
    headers     text COLLATE "C" NOT NULL, -- a JSON object
    last_error  text,
    PRIMARY KEY (shard, seq),
    CONSTRAINT shard_is_0_to_255 CHECK (shard BETWEEN 0 AND 255)
) WITH (
    -- A queue: every row is dead soon, and the forwarder begins where they lie.
    -- So vacuum comes by the number of rows and not by their share, does not rest
    -- while it works, and must not be put off because the table is small.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);

-- Events that the broker refuses for good.
CREATE TABLE timer_outbox_parked (
    seq         bigint PRIMARY KEY,
    appended_at timestamptz(3) NOT NULL,
    parked_at   timestamptz(3) NOT NULL,
    attempts    integer NOT NULL,
    id          text COLLATE "C" NOT NULL,
    payload     bytea NOT NULL,
    headers     text COLLATE "C" NOT NULL,
    last_error  text NOT NULL
);

-- Events whose publish failed, until they are published or parked. They are apart
-- from timer_outbox so that any number of them costs what is sent meanwhile nothing.
CREATE TABLE timer_outbox_deferred (
    seq         bigint NOT NULL, -- as in timer_outbox
    appended_at timestamptz(3) NOT NULL,
    retry_at    timestamptz(3) NOT NULL,
    attempts    integer NOT NULL,
    shard       smallint NOT NULL,         -- as in timer_outbox; -1: no handler wants it, and the destination is its service call
    destination text COLLATE "C" NOT NULL, -- what failed: the topic, and its partition if that is known, or the tenant and the prefix of a handler
    id          text COLLATE "C" NOT NULL,
    payload     bytea NOT NULL,
    headers     text COLLATE "C" NOT NULL,
    last_error  text NOT NULL,
    PRIMARY KEY (shard, seq)
) WITH (
    -- A queue, as timer_outbox.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);

-- Each round of retries takes the first rows of some destinations. The shard is an
-- expression so that no plan for rows by their numbers takes this index, whatever
-- the statistics say.
CREATE INDEX idx_timer_outbox_deferred_retry
    ON timer_outbox_deferred ((shard::integer), destination, retry_at);

-- Parked events of a tenant, in their order. The number is an expression so that no
-- plan for rows by their numbers takes this index, whatever the statistics say.
CREATE INDEX idx_timer_outbox_parked_tenant
    ON timer_outbox_parked (((headers::json ->> 'tenantId') COLLATE "C"), (seq + 0));

-- How many timers of each state a tenant has; under the tenant '' those of all,
-- and how many events wait in the outbox. Each transaction adds a row with what it
-- changed, so that none waits for another because of a count. Now and then one
-- instance folds them into one row a tenant.
CREATE TABLE timer_counts (
    scheduled bigint  NOT NULL DEFAULT 0,
    reached   bigint  NOT NULL DEFAULT 0,
    expired   bigint  NOT NULL DEFAULT 0,
    canceled  bigint  NOT NULL DEFAULT 0,
    outbox    bigint  NOT NULL DEFAULT 0,
    folded    boolean NOT NULL DEFAULT false,
    tenant_id text COLLATE "C" NOT NULL
) WITH (
    -- Every row that is not folded is dead soon, as in a queue.
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

CREATE UNIQUE INDEX idx_timer_counts_folded
    ON timer_counts (tenant_id)
 WHERE folded;

CREATE INDEX idx_timer_counts_fresh
    ON timer_counts (tenant_id)
 WHERE NOT folded;

-- It has no primary key, which a host that publishes all its tables would need.
ALTER TABLE timer_counts REPLICA IDENTITY FULL;

-- Deletes are counted here, since they come from purges, from the cascade of a
-- foreign key, and from operators: with any search_path, so the schema is named.
-- +goose StatementBegin
CREATE FUNCTION timer_schedules_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('
        INSERT INTO %I.timer_counts (tenant_id, scheduled, reached, expired, canceled)
        SELECT tenant_id,
               -count(*) FILTER (WHERE state = ''Scheduled''),
               -count(*) FILTER (WHERE state = ''Reached''),
               -count(*) FILTER (WHERE state = ''Expired''),
               -count(*) FILTER (WHERE state = ''Canceled'')
          FROM deleted
         GROUP BY tenant_id', TG_TABLE_SCHEMA);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER timer_schedules_deleted
 AFTER DELETE ON timer_schedules
       REFERENCING OLD TABLE AS deleted
   FOR EACH STATEMENT EXECUTE FUNCTION timer_schedules_deleted();

-- A table that is emptied at once, as by the cascade of a host's TRUNCATE, has no
-- rows to count: what its counts come to is taken away. Nobody writes meanwhile.
-- +goose StatementBegin
CREATE FUNCTION timer_schedules_truncated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('
        INSERT INTO %1$I.timer_counts (tenant_id, scheduled, reached, expired, canceled)
        SELECT tenant_id, -sum(scheduled), -sum(reached), -sum(expired), -sum(canceled)
          FROM %1$I.timer_counts
         WHERE tenant_id <> ''''
         GROUP BY tenant_id', TG_TABLE_SCHEMA);
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER timer_schedules_truncated
 AFTER TRUNCATE ON timer_schedules
   FOR EACH STATEMENT EXECUTE FUNCTION timer_schedules_truncated();

-- Which database this is: one row, with a UUID. A broker keeps the same one, so that
-- no two databases share its commands. An import is another database. Which broker
-- it is used with is here, since all instances must use the same.
CREATE TABLE timer_database (
    one           boolean PRIMARY KEY DEFAULT true,
    id            text COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text,
    broker        text COLLATE "C", -- id of the broker; null until the first use
    broker_name   text,             -- for people
    CONSTRAINT one_row CHECK (one)
);

INSERT INTO timer_database DEFAULT VALUES;

-- Tenants whose timers do not fire, since an operator paused that. The row of no tenant is
-- about all. A backup of a database that is paused is paused.
CREATE TABLE timer_firing (
    paused_at    timestamptz(3) NOT NULL,
    paused_until timestamptz(3), -- null: until it is resumed
    tenant_id    text COLLATE "C" PRIMARY KEY,
    paused_by    text NOT NULL
);

-- How far each log of the broker is known to this database: noted in the transactions
-- that apply what was read of it. A backup has the positions that it stands at, so a
-- restored one is known to be behind. An export has none. The position of a log is the
-- highest of each column. Each transaction adds a row, and rows that are behind are
-- deleted later: a row that each transaction updates would have more and more dead
-- versions to step over while another transaction holds a snapshot.
CREATE TABLE timer_positions (
    committed bigint NOT NULL, -- all commands up to this number are here, or are dead letters
    observed  bigint NOT NULL, -- the highest number that was received or published
    log       text COLLATE "C" NOT NULL,
    PRIMARY KEY (log, committed, observed),
    CONSTRAINT log_has_1_to_512_bytes    CHECK (octet_length(log) BETWEEN 1 AND 512),
    CONSTRAINT positions_never_fall      CHECK (committed >= 0), -- see query/note.sql
    CONSTRAINT observed_is_not_negative  CHECK (observed >= 0)
) WITH (
    -- A queue, as timer_outbox.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX idx_timer_positions_observed
    ON timer_positions (log, observed, committed);
