-- Delete the rows of numbers that others came after. Reads timer_numbers_pkey.
  WITH old AS MATERIALIZED (
       SELECT rows.place
         FROM unnest($1::text[], $2::text[], $3::text[]) AS p (broker, log, kind)
        CROSS JOIN LATERAL (
              SELECT t.seq
                FROM timer_numbers AS t
               WHERE t.broker = p.broker AND t.log = p.log AND t.kind = p.kind
               ORDER BY t.broker DESC, t.log DESC, t.kind DESC, t.seq DESC
               LIMIT 1) AS newest
        CROSS JOIN LATERAL (
              SELECT t.ctid AS place
                FROM timer_numbers AS t
               WHERE t.broker = p.broker AND t.log = p.log AND t.kind = p.kind AND t.seq < newest.seq
               ORDER BY t.broker, t.log, t.kind, t.seq
              OFFSET 0) AS rows)
DELETE FROM timer_numbers AS t
 USING old
 WHERE t.ctid = old.place
