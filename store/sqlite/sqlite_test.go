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

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

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

func schedule(call timer.ServiceCallID) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: call},
		Version: timer.Version{TimestampMS: 1, CommandID: "command"}, DueAt: noon,
	}
}

// scheduled schedules timers that are due at noon.
func scheduled(t testing.TB, s *sqlite.Store, calls ...timer.ServiceCallID) {
	t.Helper()
	commands := make([]timer.ScheduleTimer, len(calls))
	for i, call := range calls {
		commands[i] = schedule(call)
	}
	_, err := s.Schedule(t.Context(), noon, commands...)
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openFile returns a store on a file of its own.
func openFile(t testing.TB, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "timers.db"), opt)
}

// openAt opens a file. The store is closed when the test ends, unless it is closed before.
func openAt(t testing.TB, path string, opt sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opt)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// handle returns a handle of a host.
func handle(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn)
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
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

func exec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
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

// emit appends the event of a timer to the outbox.
func emit(t testing.TB, s *sqlite.Store, call timer.ServiceCallID) {
	t.Helper()
	event := timer.DueTimeReached{Key: schedule(call).Key, CommandID: "command", DueAt: noon, ReachedAt: noon}
	must(t, s.Update(t.Context(), func(tx timer.Tx) error { return tx.Emit(t.Context(), event) }))
}

func get(t testing.TB, s *sqlite.Store, call timer.ServiceCallID) timer.Entry {
	t.Helper()
	e, err := s.Get(t.Context(), schedule(call).Key)
	must(t, err)
	return e
}

// calls returns n service calls.
func calls(n int) []timer.ServiceCallID {
	all := make([]timer.ServiceCallID, n)
	for i := range all {
		all[i] = timer.ServiceCallID(fmt.Sprintf("call-%05d", i))
	}
	return all
}
