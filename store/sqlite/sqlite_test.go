package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/internal/longtest"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
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

var (
	noon                = storetest.Noon()
	must, exec          = storetest.Must, storetest.Exec
	schedule, scheduled = storetest.Timer, storetest.Schedule
	get, reachAt        = storetest.Get, storetest.Reach
)

// relaxed is enough where the power is not cut.
var relaxed = sqlite.Options{Durability: sqlite.Relaxed}

// kind is SQLite, for the tests that all kinds of databases have.
var kind = storetest.Kind{
	Package: "sqlite", Dialect: goose.DialectSQLite3, Version: sqlite.SchemaVersion, VersionTable: sqlite.VersionTable,
	Empty:  func(t testing.TB) string { return filepath.Join(t.TempDir(), "timers.db") },
	Handle: func(t testing.TB, place string) *sql.DB { return handle(t, sqlite.DSN(place)) },
	Exec:   func(t testing.TB, db *sql.DB, script string) { exec(t, db, script) },
	Schema: schemaOf,
	Time:   func(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) },
	Refuse: func(table string) (refuse, allow string) {
		for _, event := range []string{"INSERT", "UPDATE", "DELETE"} {
			refuse += fmt.Sprintf("CREATE TRIGGER refuse_%[1]s BEFORE %[1]s ON %[2]s BEGIN SELECT RAISE(ABORT, 'written'); END; ", event, table)
			allow += "DROP TRIGGER refuse_" + event + "; "
		}
		return refuse, allow
	},
	Open: func(ctx context.Context, path string, log *slog.Logger) (storetest.OpenStore, error) {
		return sqlite.Open(ctx, path, sqlite.Options{Durability: sqlite.Relaxed, Log: log})
	},
	OpenReader: func(ctx context.Context, path string) (storetest.OpenReader, error) {
		return sqlite.OpenReader(ctx, path)
	},
	New:        func(db *sql.DB) storetest.OpenStore { return sqlite.New(db, relaxed) },
	Migrations: sqlite.Migrations, MigrationSQL: sqlite.MigrationSQL, MigrateFrom: sqlite.MigrateFrom,
	Verify: sqlite.Verify, VersionOf: sqlite.VersionOf, ReferenceServiceCalls: sqlite.ReferenceServiceCalls,
}

// openAt opens a file. The store is closed when the test ends, unless it is closed before.
func openAt(t testing.TB, path string, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opt)
	return storetest.Opened(t, s, err)
}

// openFile returns a store on a file of its own.
func openFile(t testing.TB, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "timers.db"), opt)
}

// handle returns a handle of a host.
func handle(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	return storetest.Opened(t, db, err)
}

// openHost returns the database of a host, migrated.
func openHost(t testing.TB) *sql.DB {
	t.Helper()
	return migrated(t, sqlite.DSN(filepath.Join(t.TempDir(), "host.db")))
}

func migrated(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db := handle(t, dsn)
	must(t, sqlite.Migrate(t.Context(), db))
	return db
}

// relaxedDSN is [sqlite.DSN] of a handle that does not sync.
func relaxedDSN(t testing.TB) string {
	return strings.Replace(sqlite.DSN(filepath.Join(t.TempDir(), "host.db")), "synchronous%28full%29", "synchronous%28normal%29", 1)
}

// schemaOf returns the statements that made a database, whatever their spaces, and the settings
// that a change of its schema may have left on a connection, sorted.
func schemaOf(t testing.TB, db *sql.DB) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `
		SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema
		 UNION ALL
		SELECT 'foreign_keys: ' || foreign_keys FROM pragma_foreign_keys
		 UNION ALL
		SELECT 'legacy_alter_table: ' || legacy_alter_table FROM pragma_legacy_alter_table`)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		all = append(all, strings.Join(strings.Fields(text), " "))
	}
	must(t, rows.Err())
	slices.Sort(all)
	return all
}

// calls returns n service calls.
func calls(n int) []timer.ServiceCallID {
	all := make([]timer.ServiceCallID, n)
	for i := range all {
		all[i] = timer.ServiceCallID(fmt.Sprintf("call-%05d", i))
	}
	return all
}

// emit appends the event of a timer to the outbox.
func emit(t testing.TB, s *sqlite.Store, call timer.ServiceCallID) {
	t.Helper()
	must(t, storetest.Emit(t.Context(), s, call))
}
