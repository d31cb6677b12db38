-- +goose Up

-- Which database this is: one row, with a UUID (version 4). A broker keeps the same
-- one, so that no two databases share its commands. A backup has it too; an import is
-- another database.
CREATE TABLE timer_database (
    one INTEGER PRIMARY KEY,
    id  TEXT NOT NULL,
    CONSTRAINT one_row              CHECK (one = 1),
    CONSTRAINT id_has_36_characters CHECK (length(id) = 36)
) STRICT;

INSERT INTO timer_database (one, id)
VALUES (1, lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' ||
                 substr('89ab', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))));
