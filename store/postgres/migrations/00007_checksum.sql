-- +goose Up

-- Of what the command of a timer that waits said, see timer.Entry.Checksum. Null in rows
-- of before, which are not verified when they fire, and in those that are Canceled.
ALTER TABLE timer_schedules ADD COLUMN checksum integer;

-- Rows of timers that were due and did not match their checksum, as they were found.
CREATE TABLE timer_damaged (
    seq             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    due_at          timestamptz,
    found_at        timestamptz(3) NOT NULL,
    command_at      bigint,
    tenant_id       text COLLATE "C",
    service_call_id text COLLATE "C",
    state           text COLLATE "C",
    command_id      text COLLATE "C"
);
