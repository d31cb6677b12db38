-- +goose Up

-- What travels with a timer: a JSON value as it was written. Null if there is none.
ALTER TABLE timer_schedules
  ADD COLUMN data TEXT
      CONSTRAINT data_has_at_most_4096_bytes CHECK (length(CAST(data AS BLOB)) <= 4096);
