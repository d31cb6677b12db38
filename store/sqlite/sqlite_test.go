package sqlite_test

import (
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// TestOwnFile runs the contract on a file that the store opens itself.
func TestOwnFile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return openFile(t, relaxed) })
}

// TestHostHandle runs the contract on the handle of a host, with several
// connections.
func TestHostHandle(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		return sqlite.New(migrated(t, relaxedDSN(t)), sqlite.Options{})
	})
}

// TestTogether runs two stores on one file, which only hosts can do.
func TestTogether(t *testing.T) {
	t.Parallel()
	storetest.Together(t, func(t testing.TB) (a, b storetest.Store) {
		dsn := relaxedDSN(t)
		return sqlite.New(migrated(t, dsn), sqlite.Options{}), sqlite.New(migrated(t, dsn), sqlite.Options{})
	})
}

// TestDatabase runs the tests that all kinds of databases have.
func TestDatabase(t *testing.T) {
	t.Parallel()
	storetest.RunDatabase(t, kind)
}

func BenchmarkSQLite(b *testing.B) {
	storetest.Bench(b, func(t testing.TB) storetest.Store { return openFile(t, sqlite.Options{}) })
}
