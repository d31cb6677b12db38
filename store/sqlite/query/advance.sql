-- Write numbers, each a [broker, log, kind, number] in the JSON array ?1, in place of those
-- that were there. Seeks the primary key.
INSERT INTO timer_numbers (broker, log, kind, number)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3
  FROM jsonb_each(?1)
 WHERE true
    ON CONFLICT (broker, log, kind) DO UPDATE
   SET number = excluded.number
