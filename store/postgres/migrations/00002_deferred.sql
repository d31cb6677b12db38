-- +goose Up

-- Events whose publish failed, until they are published or parked. They are apart
-- from timer_outbox so that any number of them costs what is sent meanwhile nothing.
CREATE TABLE timer_outbox_deferred (
    seq         bigint NOT NULL, -- as in timer_outbox
    appended_at timestamptz(3) NOT NULL,
    retry_at    timestamptz(3) NOT NULL,
    attempts    integer NOT NULL,
    shard       smallint NOT NULL,
    destination text COLLATE "C" NOT NULL, -- what failed: the topic, and its partition if that is known
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
