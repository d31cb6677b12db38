// Package sqlite keeps timers and the outbox in one SQLite file, through
// modernc.org/sqlite. [Open] is for a service that owns the file, [New] for a
// host that opened it itself, [OpenReader] for reading while a service runs.
//
// # Durability
//
// The journal is a write-ahead log. With [Strict] every commit is synced to disk
// before it returns (synchronous=FULL): what was committed survives a loss of
// power. With [Relaxed] it survives a crash of the process only.
//
// # Writers and readers
//
// One transaction writes at a time; others queue for it in the order they came,
// as long as their context lasts. Reads use connections of their own and never
// wait for a writer.
//
// # Safety
//
// One process owns the file: a lock file beside it says which. If the file is
// unlinked or replaced while it is open, every write fails with
// [timer.ErrFatal], since what it would commit could be gone.
package sqlite
