-- Keep parked events as another store had them, in the order given, under numbers
-- that no other event gets. A number comes with a row of the outbox, which
-- load_unpark.sql takes out again: a role that may use the tables need not have a right
-- to the sequence behind them.
  WITH parked AS (
       SELECT *
         FROM unnest($1::text[], $2::bytea[], $3::text[], $4::timestamptz[], $5::integer[], $6::text[], $7::timestamptz[])
              WITH ORDINALITY AS e (id, payload, headers, appended_at, attempts, last_error, parked_at, number)),
       added AS (
       INSERT INTO timer_outbox (shard, id, payload, headers, appended_at)
       SELECT 0, id, payload, headers, appended_at
         FROM parked
        ORDER BY number
       RETURNING seq),
       numbers AS (
       SELECT seq, row_number() OVER (ORDER BY seq) AS number
         FROM added)
INSERT INTO timer_outbox_parked (seq, id, payload, headers, appended_at, attempts, last_error, parked_at)
SELECT seq, id, payload, headers, appended_at, attempts, last_error, parked_at
  FROM parked
  JOIN numbers USING (number)
