-- How a dump begins: all of it is one snapshot, however long it takes. Statements
-- of a dump read everything, and sort it if that is less work.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL statement_timeout = 0;
SET LOCAL jit = off
