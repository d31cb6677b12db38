-- Report whether three tables exist.
SELECT to_regclass($1) IS NOT NULL,
       to_regclass($2) IS NOT NULL,
       to_regclass($3) IS NOT NULL
