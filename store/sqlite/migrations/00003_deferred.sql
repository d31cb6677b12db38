-- +goose Up

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
    destination TEXT    NOT NULL, -- what failed: the topic, and its partition if that is known
    retry_at    INTEGER NOT NULL
) STRICT;

-- Each round of retries takes the first rows of some destinations.
CREATE INDEX idx_timer_outbox_deferred_retry
    ON timer_outbox_deferred (destination, retry_at);
