-- Read the name of the product. Others speak the protocol of PostgreSQL too.
SELECT version()
