-- Record positions of logs, sorted: of two numbers the higher one counts. $4 and $5 are the
-- positions that this process has recorded before. If the database has lower ones, it is
-- older than it was. Then the row breaks the constraint positions_never_fall, which ends the
-- transaction without another round trip. Adds only at the end. Reads the last entry of each
-- log in both indexes, which is hardly ever a dead one.
INSERT INTO timer_positions (log, committed, observed)
SELECT p.log,
       CASE WHEN coalesce(committed.highest, 0) < p.was_committed OR coalesce(observed.highest, 0) < p.was_observed THEN -1 ELSE greatest(p.committed, committed.highest) END,
       greatest(p.observed, observed.highest)
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS p (log, committed, observed, was_committed, was_observed, number)
  LEFT JOIN LATERAL (
       SELECT t.committed AS highest
         FROM timer_positions AS t
        WHERE t.log = p.log
        ORDER BY t.log DESC, t.committed DESC
        LIMIT 1) AS committed ON true
  LEFT JOIN LATERAL (
       SELECT t.observed AS highest
         FROM timer_positions AS t
        WHERE t.log = p.log
        ORDER BY t.log DESC, t.observed DESC
        LIMIT 1) AS observed ON true
 ORDER BY p.number
    ON CONFLICT DO NOTHING
