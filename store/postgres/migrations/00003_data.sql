-- +goose Up

-- What travels with a timer: a JSON value as it was written, which neither json nor
-- jsonb would keep under all circumstances. Null if there is none.
ALTER TABLE timer_schedules
  ADD COLUMN data text COLLATE "C",
  ADD CONSTRAINT data_has_at_most_4096_bytes CHECK (octet_length(data) <= 4096);
