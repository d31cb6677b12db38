// Package postgres keeps timers and the outbox in a PostgreSQL database, version
// 15 or newer, through pgx. Any number of instances may work on the same one.
// [Open] is for a service that has a URL, [New] for a host with a handle of its
// own, [OpenReader] for reading while services run.
//
// # Durability
//
// A commit is as durable as the server makes it. With [Strict] a database with
// synchronous_commit or fsync turned off is refused. With [Relaxed] transactions
// turn synchronous_commit off for themselves: a crash of the server may take the
// last commits, one of this process does not.
//
// # Transactions
//
// All are at READ COMMITTED, whatever the database has as its default, and short:
// none waits for anything but rows. Schedule and Cancel wait for each other where
// they have the same keys, and lock in an order that leads to no deadlock. Reach
// and Purge wait for no transaction: they skip what another transaction is changing.
// Reads see what was committed and never wait.
//
// A process that is stopped in the middle of a transaction, as by SIGSTOP, keeps
// its rows from others for four seconds; then the server ends the transaction.
// A statement that waits for a row waits six seconds before it gives up, so it outlasts
// that. The same holds if it is stopped while the server sends it rows. A process
// that dies loses its locks at once.
//
// # PgBouncer
//
// Nothing depends on a session: statements have no names, settings hold for one
// transaction, locks end with it. So a PgBouncer in transaction mode may stand in
// between. The tests run the whole contract through one.
//
// Without one, default_query_exec_mode=cache_statement in the URL, or pgx's own
// default in the handle of a host, has statements prepared once for each
// connection: commands that come one by one cost the server a third then, batches
// of a hundred a fifth less, greater ones the same (measured 2026-11).
package postgres
