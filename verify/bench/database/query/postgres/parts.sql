-- How large each table and index is.
SELECT c.relname, CASE c.relkind WHEN 'i' THEN pg_relation_size(c.oid) ELSE pg_table_size(c.oid) END
  FROM pg_class AS c
 WHERE c.relnamespace = current_schema()::regnamespace
   AND c.relname LIKE '%timer\_%'
   AND c.relkind IN ('r', 'i')
 ORDER BY c.relname
