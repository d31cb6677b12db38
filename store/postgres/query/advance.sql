-- Write numbers. The last row of a log and kind counts.
INSERT INTO timer_numbers (broker, log, kind, number)
SELECT *
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
RETURNING seq
