// Package postgres keeps timers and the outbox in a PostgreSQL database, version 15 or newer,
// through pgx. Any number of instances may work on the same database. [Open] is for a service
// that has a URL, [New] for a host with a handle of its own, [OpenReader] for reading while
// services run.
//
// # Durability
//
// A commit is as durable as the server makes it. [Strict] refuses a database that has
// synchronous_commit or fsync turned off. With [Relaxed] each transaction turns
// synchronous_commit off for itself: a crash of the server may lose the last commits, a crash
// of this process does not.
//
// # Transactions
//
// All transactions are at READ COMMITTED, whatever the database has as its default, and
// short: they wait for nothing but rows. Schedule and Cancel wait for each other if they have
// the same keys, and lock in an order that leads to no deadlock. Reach and Purge wait for no
// transaction: they skip rows that another transaction is changing. Reads see committed rows
// and never wait.
//
// If a process is stopped in the middle of a transaction, as by SIGSTOP, or while the server
// sends it rows, the server ends its transaction after four seconds. Until then no other
// transaction can change its rows. A statement that waits for a row gives up after six
// seconds, so it outlasts such a process. A process that dies loses its locks at once.
//
// # PgBouncer
//
// Nothing depends on a session: statements have no names, settings hold for one transaction,
// and locks end with it. So a PgBouncer in transaction mode may stand in between. The tests
// run the whole contract through one.
//
// Without PgBouncer, set default_query_exec_mode=cache_statement in the URL, or leave pgx's
// own default in the handle of a host. Then statements are prepared once for each connection:
// single commands cost the server a third less, batches of a hundred a fifth less, larger
// ones the same (measured 2026-11).
package postgres
