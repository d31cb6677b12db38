-- +goose Up

-- How far each log of the broker is known to this database: noted in the transactions
-- that apply what was read of it. A backup has the positions that it stands at, so a
-- restored one is known to be behind. An export has none.
CREATE TABLE timer_positions (
    done bigint NOT NULL, -- all commands up to this number are here, or are dead letters
    seen bigint NOT NULL, -- the highest number that was received or published
    log  text COLLATE "C" PRIMARY KEY,
    CONSTRAINT log_has_1_to_512_bytes CHECK (octet_length(log) BETWEEN 1 AND 512),
    CONSTRAINT positions_never_fall   CHECK (done >= 0), -- see query/note.sql
    CONSTRAINT seen_is_not_negative   CHECK (seen >= 0)
) WITH (
    -- A few rows that each batch changes: room for their next versions on the same
    -- page, which need no vacuum then.
    fillfactor = 20,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

-- Since when the database is made whole again from the broker; null if it is not.
ALTER TABLE timer_database ADD COLUMN recovering_at timestamptz(3);
