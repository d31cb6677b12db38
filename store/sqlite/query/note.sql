-- Note positions of logs, each a [log, done, seen] in the JSON array ?1: the higher of
-- two numbers stays. Seeks the primary key.
INSERT INTO timer_positions (log, done, seen)
SELECT value ->> 0, value ->> 1, value ->> 2
  FROM jsonb_each(?1)
 WHERE true
    ON CONFLICT (log) DO UPDATE
   SET done = max(done, excluded.done),
       seen = max(seen, excluded.seen)
