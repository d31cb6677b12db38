-- Read what the server calls itself. Others speak the protocol of PostgreSQL too.
SELECT version()
