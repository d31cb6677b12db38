-- Whether there are two tables.
SELECT to_regclass($1) IS NOT NULL,
       to_regclass($2) IS NOT NULL
