-- Record positions of logs, sorted: the higher of two numbers stays. $4 and $5 are the
-- positions that this process has recorded before. If the database has lower ones, it is
-- older than it was. Then the row breaks the constraint positions_never_fall, which ends the
-- transaction without another round trip. Seeks the primary key.
INSERT INTO timer_positions (log, done, seen)
SELECT p.log, CASE WHEN coalesce(there.done, 0) < p.was_done OR coalesce(there.seen, 0) < p.was_seen THEN -1 ELSE p.done END, p.seen
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS p (log, done, seen, was_done, was_seen, number)
  LEFT JOIN LATERAL (
       SELECT done, seen
         FROM timer_positions AS t
        WHERE t.log = p.log
       OFFSET 0) AS there ON true
 ORDER BY p.number
    ON CONFLICT (log) DO UPDATE
   SET done = greatest(timer_positions.done, excluded.done),
       seen = greatest(timer_positions.seen, excluded.seen)
