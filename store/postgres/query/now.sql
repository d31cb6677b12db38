-- What time it is at the server.
SELECT clock_timestamp()
