-- Delete the positions of logs that others are ahead of. Keeps two rows of each log: those
-- with the highest of each column, which may be one. Begins at the positions $2 and $3, which
-- an earlier call returned. Reads timer_positions_pkey.
  WITH kept AS MATERIALIZED (
       SELECT p.log, p.done AS from_done, p.seen AS from_seen, by_done.place AS by_done, by_seen.place AS by_seen, by_seen.done, by_seen.seen
         FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS p (log, done, seen)
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place
                FROM timer_positions AS t
               WHERE t.log = p.log
               ORDER BY t.log DESC, t.done DESC, t.seen DESC
               LIMIT 1) AS by_done
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place, t.done, t.seen
                FROM timer_positions AS t
               WHERE t.log = p.log
               ORDER BY t.log DESC, t.seen DESC, t.done DESC
               LIMIT 1) AS by_seen),
       behind AS MATERIALIZED (
       SELECT rows.place
         FROM kept
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place
                FROM timer_positions AS t
               WHERE t.log = kept.log AND (t.done, t.seen) >= (kept.from_done, kept.from_seen) AND t.ctid <> kept.by_done AND t.ctid <> kept.by_seen
               ORDER BY t.log, t.done, t.seen
              OFFSET 0) AS rows),
       gone AS (
       DELETE FROM timer_positions AS t
        USING behind
        WHERE t.ctid = behind.place)
SELECT log, done, seen
  FROM kept
