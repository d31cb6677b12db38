-- +goose Up

-- How far each log of the broker is known to this database: noted in the transactions
-- that apply what was read of it. A backup has the positions that it stands at, so a
-- restored one is known to be behind. An export has none.
CREATE TABLE timer_positions (
    log  TEXT    NOT NULL PRIMARY KEY,
    done INTEGER NOT NULL, -- all commands up to this number are here, or are dead letters
    seen INTEGER NOT NULL, -- the highest number that was received or published
    CONSTRAINT log_has_1_to_512_bytes CHECK (length(CAST(log AS BLOB)) BETWEEN 1 AND 512),
    CONSTRAINT done_is_not_negative   CHECK (done >= 0),
    CONSTRAINT seen_is_not_negative   CHECK (seen >= 0)
) STRICT, WITHOUT ROWID;

-- Since when the database is made whole again from the broker; null if it is not.
ALTER TABLE timer_database ADD COLUMN recovering_at INTEGER;
