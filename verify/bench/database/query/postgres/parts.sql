-- How large each table and index is, and how many rows wait for a vacuum.
SELECT c.relname, CASE c.relkind WHEN 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END, coalesce(s.n_dead_tup, 0)
  FROM pg_class AS c
  LEFT JOIN pg_stat_user_tables AS s ON s.relid = c.oid
 WHERE c.relnamespace = current_schema()::regnamespace
   AND c.relname LIKE '%timer\_%'
   AND c.relkind IN ('r', 'i')
 ORDER BY c.relname
