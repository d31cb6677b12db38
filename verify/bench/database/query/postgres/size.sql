-- How large this database is.
SELECT pg_database_size(current_database())
