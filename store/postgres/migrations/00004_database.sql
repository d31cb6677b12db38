-- +goose Up

-- Which database this is: one row, with a UUID. A broker keeps the same one, so that
-- no two databases share its commands. An import is another database. Which broker
-- it is used with is here, since all instances must use the same.
CREATE TABLE timer_database (
    one         boolean PRIMARY KEY DEFAULT true,
    id          text COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text,
    broker      text COLLATE "C", -- id of the broker; null until the first use
    broker_name text,             -- for people
    CONSTRAINT one_row CHECK (one)
);

INSERT INTO timer_database DEFAULT VALUES;
