package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

func TestMigrateTwiceChangesNothing(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	before := schemaOf(t, db)
	from, to, err := sqlite.MigrateFrom(t.Context(), db)
	if err != nil || from != sqlite.SchemaVersion || to != sqlite.SchemaVersion {
		t.Errorf("migrated from %d to %d, %v", from, to, err)
	}
	if diff := cmp.Diff(before, schemaOf(t, db)); diff != "" {
		t.Errorf("schema (-before +after):\n%s", diff)
	}
}

// TestMigrationByHand applies what is printed for people, from each version.
func TestMigrationByHand(t *testing.T) {
	t.Parallel()
	schema := func(db *sql.DB) (all []string) { // whatever its spaces
		for _, text := range schemaOf(t, db) {
			all = append(all, strings.Join(strings.Fields(text), " "))
		}
		return all
	}
	want := schema(openHost(t))
	whole, err := sqlite.MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	for from := range sqlite.SchemaVersion + 1 {
		rest, err := sqlite.MigrationSQL(from)
		if err != nil {
			t.Fatal(err)
		}
		first, is := strings.CutSuffix(whole, rest)
		if !is {
			t.Fatalf("the steps from %d are not the end of all", from)
		}
		path := filepath.Join(t.TempDir(), "hand.db")
		db, err := sql.Open("sqlite", sqlite.DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		exec(t, db, first)
		if v, err := sqlite.VersionOf(t.Context(), path); v != from || err != nil {
			t.Errorf("version %d, %v, want %d", v, err, from)
		}
		exec(t, db, rest)
		if err := sqlite.Verify(t.Context(), db); err != nil {
			t.Errorf("from %d: %v", from, err)
		}
		if _, to, err := sqlite.MigrateFrom(t.Context(), db); err != nil || to != sqlite.SchemaVersion {
			t.Errorf("from %d: migrated to %d, %v", from, to, err)
		}
		if diff := cmp.Diff(want, schema(db)); diff != "" {
			t.Errorf("from %d: schema (-want +got):\n%s", from, diff)
		}
	}
	if v, err := sqlite.VersionOf(t.Context(), filepath.Join(t.TempDir(), "absent.db")); v != 0 || err != nil {
		t.Errorf("of no file: %d, %v", v, err)
	}
}

// TestMigrateBesideAHost migrates a database that has a goose of its own, at
// another version.
func TestMigrateBesideAHost(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	exec(t, db, `CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY, version_id INTEGER, is_applied INTEGER, tstamp TEXT)`,
		`INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (99, 1)`)
	if err := errors.Join(sqlite.Migrate(t.Context(), db), sqlite.Verify(t.Context(), db)); err != nil {
		t.Error(err)
	}
}

// TestMigrationsOfAHost applies the migrations with a goose of the host's.
func TestMigrationsOfAHost(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "host.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, sqlite.Migrations(),
		goose.WithTableName(sqlite.VersionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Verify(t.Context(), db); err == nil {
		t.Error("a database without tables was found good")
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.Verify(t.Context(), db); err != nil {
		t.Error(err)
	}
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1")); err != nil {
		t.Error(err)
	}
}

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	var running sync.WaitGroup
	for range 6 {
		db, err := sql.Open("sqlite", sqlite.DSN(path))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		running.Go(func() {
			if err := errors.Join(sqlite.Migrate(t.Context(), db), sqlite.Verify(t.Context(), db)); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	exec(t, s.DB(), `INSERT INTO timer_schema (version_id, is_applied) VALUES (17, 1)`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, opened := sqlite.Open(t.Context(), path, sqlite.Options{})
	_, read := sqlite.OpenReader(t.Context(), path)
	_, scheduled := sqlite.New(db, sqlite.Options{}).Schedule(t.Context(), noon, schedule("call-1"))
	for what, err := range map[string]error{
		"Open": opened, "OpenReader": read, "New": scheduled,
		"Migrate": sqlite.Migrate(t.Context(), db), "Verify": sqlite.Verify(t.Context(), db),
		"Watch": sqlite.New(db, sqlite.Options{}).Watch(t.Context()),
	} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), fmt.Sprintf("version 17, this binary knows %d", sqlite.SchemaVersion)) {
			t.Errorf("%s: %v, want ErrFatal with both versions", what, err)
		}
	}
}

func TestOlderSchemaIsNotRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec(t, db, `CREATE TABLE something (id INTEGER)`)
	_, read := sqlite.OpenReader(t.Context(), path)
	for what, err := range map[string]error{"OpenReader": read, "Verify": sqlite.Verify(t.Context(), db)} {
		if err == nil || errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), fmt.Sprintf("version 0, this binary needs %d: run", sqlite.SchemaVersion)) {
			t.Errorf("%s: %v, want one that says how to migrate", what, err)
		}
	}
}

// TestDatabaseFromBeforeTheRelease has a table of versions by its former name.
func TestDatabaseFromBeforeTheRelease(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "timers.db")
	db, err := sql.Open("sqlite", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec(t, db, `CREATE TABLE timer_schema_version (id INTEGER PRIMARY KEY, version_id INTEGER)`, `INSERT INTO timer_schema_version (version_id) VALUES (1)`)
	_, opened := sqlite.Open(t.Context(), path, sqlite.Options{})
	_, read := sqlite.OpenReader(t.Context(), path)
	_, version := sqlite.VersionOf(t.Context(), path)
	for what, err := range map[string]error{
		"Open": opened, "OpenReader": read, "VersionOf": version,
		"Migrate": sqlite.Migrate(t.Context(), db), "Verify": sqlite.Verify(t.Context(), db),
	} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "before release 0.1.0") {
			t.Errorf("%s: %v, want ErrFatal that says how to move", what, err)
		}
	}
}

// TestRowsKeepTheInvariants writes rows by hand that break them.
func TestRowsKeepTheInvariants(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	const insert = `INSERT INTO timer_schedules
		(tenant_id, service_call_id, due_at, registered_at, reached_at, canceled_at, state, command_at, command_id) VALUES `
	exec(t, db, insert+`('acme', 'good', 5, 1, 5, NULL, 'Reached', 1, 'c')`)
	for row, constraint := range map[string]string{
		`('', 'x', 5, 1, NULL, NULL, 'Scheduled', 1, 'c')`:                    "tenant_id_has_1_to_64_characters",
		`('acme', '', 5, 1, NULL, NULL, 'Scheduled', 1, 'c')`:                 "service_call_id_has_1_to_128_characters",
		`('acme', 'x', 5, 1, NULL, NULL, 'Scheduled', 1, '')`:                 "command_id_has_1_to_128_characters",
		`('acme', 'x', 5, 1, NULL, NULL, 'Scheduled', -1, 'c')`:               "command_at_is_not_negative",
		`('acme', 'x', 5, 1, NULL, NULL, 'Waiting', 1, 'c')`:                  "state_is_known",
		`('acme', 'x', NULL, 1, NULL, NULL, 'Scheduled', 1, 'c')`:             "only_a_tombstone_has_no_due_at",
		`('acme', 'x', 5, 1, NULL, NULL, 'Reached', 1, 'c')`:                  "reached_at_goes_with_a_mark",
		`('acme', 'x', 5, 1, 6, NULL, 'Scheduled', 1, 'c')`:                   "reached_at_goes_with_a_mark",
		`('acme', 'x', 5, 1, NULL, NULL, 'Canceled', 1, 'c')`:                 "canceled_at_goes_with_canceled",
		`('acme', 'x', 5, 1, NULL, 6, 'Scheduled', 1, 'c')`:                   "canceled_at_goes_with_canceled",
		`('acme', 'x', 5, 1, 4, NULL, 'Reached', 1, 'c')`:                     "never_early",
		`('acme', 'x', '2030-05-17', 1, NULL, NULL, 'Scheduled', 1, 'c')`:     "cannot store TEXT value in INTEGER column",
		`('acme', 'good', 5, 1, NULL, NULL, 'Scheduled', 1, 'c')`:             "UNIQUE",
		`('acme', 'x', 5, NULL, NULL, NULL, 'Scheduled', 1, 'c')`:             "NOT NULL",
		`('` + strings.Repeat("a", 65) + `', 'x', 5, 1, 5, NULL, 'R', 1, '')`: "CHECK",
	} {
		if _, err := db.ExecContext(t.Context(), insert+row); err == nil || !strings.Contains(err.Error(), constraint) {
			t.Errorf("%s: %v, want it refused by %s", row, err, constraint)
		}
	}
}

// TestViewForPeople reads the same rows with times in ISO 8601.
func TestViewForPeople(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	if _, err := s.Schedule(t.Context(), noon.Add(7e6), schedule("call-1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		_, err := tx.Reach(t.Context(), noon.Add(999e6), 1, nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var got [4]string
	var canceled *string
	if err := s.DB().QueryRowContext(t.Context(),
		`SELECT due_at, registered_at, reached_at, command_at, canceled_at FROM timer_schedules_iso WHERE state = 'Reached'`).
		Scan(&got[0], &got[1], &got[2], &got[3], &canceled); err != nil {
		t.Fatal(err)
	}
	want := [4]string{"2030-05-17T12:00:00.000Z", "2030-05-17T12:00:00.007Z", "2030-05-17T12:00:00.999Z", "1970-01-01T00:00:00.001Z"}
	if got != want || canceled != nil {
		t.Errorf("got %v, canceled %v, want %v, none", got, canceled, want)
	}
}

func exec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
}

// schemaOf returns the statements that made a database, sorted.
func schemaOf(t *testing.T, db *sql.DB) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT name || ': ' || coalesce(sql, '') FROM sqlite_schema`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}
