package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/event-service-agent/timer-service/internal/longtest"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
)

// TestOwnFile runs the contract on a file that the store opens itself.
func TestOwnFile(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return openFile(t, sqlite.Options{Durability: sqlite.Relaxed}) })
}

// TestHostHandle runs the contract on the handle of a host, with several
// connections.
func TestHostHandle(t *testing.T) {
	t.Parallel()
	longtest.NotShort(t)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		relaxed := strings.Replace(sqlite.DSN(filepath.Join(t.TempDir(), "host.db")), "synchronous%28full%29", "synchronous%28normal%29", 1)
		return sqlite.New(migrated(t, relaxed), sqlite.Options{})
	})
}

// TestTogether runs two stores on one file, which only hosts can do.
func TestTogether(t *testing.T) {
	t.Parallel()
	storetest.Together(t, func(t testing.TB) (a, b storetest.Store) {
		relaxed := strings.Replace(sqlite.DSN(filepath.Join(t.TempDir(), "host.db")), "synchronous%28full%29", "synchronous%28normal%29", 1)
		return sqlite.New(migrated(t, relaxed), sqlite.Options{}), sqlite.New(migrated(t, relaxed), sqlite.Options{})
	})
}

func openFile(t testing.TB, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "timers.db"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// openHost returns the database of a host, migrated.
func openHost(t testing.TB) *sql.DB {
	t.Helper()
	return migrated(t, sqlite.DSN(filepath.Join(t.TempDir(), "host.db")))
}

func migrated(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func BenchmarkSQLite(b *testing.B) {
	storetest.Bench(b, func(t testing.TB) storetest.Store { return openFile(t, sqlite.Options{}) })
}
