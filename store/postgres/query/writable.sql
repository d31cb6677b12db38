-- Report whether the server refuses writes because it is a replica.
SELECT pg_is_in_recovery()
