-- Record positions of logs, sorted: of two numbers the higher one counts. $4 and $5 are the
-- positions that this process has recorded before. If the database has lower ones, it is
-- older than it was. Then the row breaks the constraint positions_never_fall, which ends the
-- transaction without another round trip. Adds only at the end. Reads the last entry of each
-- log in both indexes, which is hardly ever a dead one.
INSERT INTO timer_positions (log, done, seen)
SELECT p.log,
       CASE WHEN coalesce(done.highest, 0) < p.was_done OR coalesce(seen.highest, 0) < p.was_seen THEN -1 ELSE greatest(p.done, done.highest) END,
       greatest(p.seen, seen.highest)
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]) WITH ORDINALITY AS p (log, done, seen, was_done, was_seen, number)
  LEFT JOIN LATERAL (
       SELECT t.done AS highest
         FROM timer_positions AS t
        WHERE t.log = p.log
        ORDER BY t.log DESC, t.done DESC
        LIMIT 1) AS done ON true
  LEFT JOIN LATERAL (
       SELECT t.seen AS highest
         FROM timer_positions AS t
        WHERE t.log = p.log
        ORDER BY t.log DESC, t.seen DESC
        LIMIT 1) AS seen ON true
 ORDER BY p.number
    ON CONFLICT DO NOTHING
