-- Note positions of logs, each a [log, committed, observed] in the JSON array ?1: the higher of
-- two numbers stays. Seeks the primary key.
INSERT INTO timer_positions (log, committed, observed)
SELECT value ->> 0, value ->> 1, value ->> 2
  FROM jsonb_each(?1)
 WHERE true
    ON CONFLICT (log) DO UPDATE
   SET committed = max(committed, excluded.committed),
       observed = max(observed, excluded.observed)
