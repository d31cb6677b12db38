-- Delete the positions of logs that others are ahead of. Keeps two rows of each log: those
-- with the highest of each column, which may be one. Begins at the positions $2 and $3, which
-- an earlier call returned. Reads timer_positions_pkey.
  WITH kept AS MATERIALIZED (
       SELECT p.log, p.committed AS from_committed, p.observed AS from_observed, by_committed.place AS by_committed, by_observed.place AS by_observed, by_observed.committed, by_observed.observed
         FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS p (log, committed, observed)
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place
                FROM timer_positions AS t
               WHERE t.log = p.log
               ORDER BY t.log DESC, t.committed DESC, t.observed DESC
               LIMIT 1) AS by_committed
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place, t.committed, t.observed
                FROM timer_positions AS t
               WHERE t.log = p.log
               ORDER BY t.log DESC, t.observed DESC, t.committed DESC
               LIMIT 1) AS by_observed),
       behind AS MATERIALIZED (
       SELECT rows.place
         FROM kept
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place
                FROM timer_positions AS t
               WHERE t.log = kept.log AND (t.committed, t.observed) >= (kept.from_committed, kept.from_observed) AND t.ctid <> kept.by_committed AND t.ctid <> kept.by_observed
               ORDER BY t.log, t.committed, t.observed
              OFFSET 0) AS rows),
       gone AS (
       DELETE FROM timer_positions AS t
        USING behind
        WHERE t.ctid = behind.place)
SELECT log, committed, observed
  FROM kept
