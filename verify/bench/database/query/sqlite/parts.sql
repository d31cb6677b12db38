-- How large each table and index is. Reads the whole file.
SELECT name, sum(pgsize)
  FROM dbstat
 WHERE name LIKE '%timer\_%' ESCAPE '\'
 GROUP BY name
 ORDER BY name
