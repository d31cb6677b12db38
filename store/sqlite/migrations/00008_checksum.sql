-- +goose Up

-- Of what the command of a timer that waits said, see timer.Entry.Checksum. Null in rows
-- of before, which are not verified when they fire, and in those that are Canceled.
ALTER TABLE timer_schedules ADD COLUMN checksum INTEGER;

-- Rows of timers that were due and did not match their checksum, as they were found:
-- whatever they hold.
CREATE TABLE timer_damaged (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant_id       ANY,
    service_call_id ANY,
    state           ANY,
    due_at          ANY,
    command_at      ANY,
    command_id      ANY,
    found_at        INTEGER NOT NULL
) STRICT;
