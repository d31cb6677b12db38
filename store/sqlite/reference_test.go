package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

const createServiceCalls = `CREATE TABLE service_calls (
	tenant_id TEXT NOT NULL, service_call_id TEXT NOT NULL, PRIMARY KEY (tenant_id, service_call_id))`

// TestReferenceIsRefused for databases where it can't hold.
func TestReferenceIsRefused(t *testing.T) {
	t.Parallel()
	const timerOf = `INSERT INTO timer_schedules (tenant_id, service_call_id, due_at, registered_at, state, command_at, command_id)
		VALUES ('acme', 'call-1', 1, 1, 'Scheduled', 1, 'c')`
	for name, c := range map[string]struct {
		before []string
		want   string
	}{
		"no table":      {nil, "there is no table service_calls"},
		"other columns": {[]string{`CREATE TABLE service_calls (id TEXT PRIMARY KEY, tenant_id TEXT)`}, "there is no table service_calls with the columns"},
		"other key":     {[]string{`CREATE TABLE service_calls (id TEXT PRIMARY KEY, tenant_id TEXT, service_call_id TEXT)`}, "needs the primary key"},
		"longer key": {[]string{`CREATE TABLE service_calls (tenant_id TEXT, service_call_id TEXT, n INTEGER,
			PRIMARY KEY (tenant_id, service_call_id, n))`}, "needs the primary key"},
		"a timer without its service call": {[]string{createServiceCalls, timerOf}, "1 timers have no service call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openHost(t)
			exec(t, db, c.before...)
			before := schemaOf(t, db)
			err := sqlite.ReferenceServiceCalls(t.Context(), db)
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, timer.ErrFatal) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, schemaOf(t, db)); diff != "" {
				t.Errorf("schema (-before +after):\n%s", diff)
			}
			settings(t, db)
		})
	}
	db := openHost(t)
	exec(t, db, `PRAGMA foreign_keys = off`)
	db.SetMaxOpenConns(1)
	if err := sqlite.ReferenceServiceCalls(t.Context(), db); err == nil || !strings.Contains(err.Error(), "sqlite.DSN") {
		t.Errorf("a handle without foreign keys: %v", err)
	}
}

// settings checks that connections are set as they were.
func settings(t *testing.T, db *sql.DB) {
	t.Helper()
	for pragma, want := range map[string]int{"foreign_keys": 1, "legacy_alter_table": 0} {
		var got int
		if err := db.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", pragma, got, err, want)
		}
	}
}

// TestReferenceKeepsWhatIsThere checks that only the table changes, and by the
// foreign key only; not even a table of the host that refers to ours notices.
func TestReferenceKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	exec(t, db, createServiceCalls,
		`CREATE TABLE notes (tenant_id TEXT, service_call_id TEXT, text TEXT,
			FOREIGN KEY (tenant_id, service_call_id) REFERENCES timer_schedules (tenant_id, service_call_id) ON DELETE CASCADE)`,
		`CREATE VIEW due AS SELECT service_call_id FROM timer_schedules_iso`,
		`CREATE TABLE audit (service_call_id TEXT)`,
		`CREATE TRIGGER audit_timers AFTER DELETE ON timer_schedules BEGIN INSERT INTO audit VALUES (old.service_call_id); END`,
		`INSERT INTO service_calls VALUES ('acme', 'call-1'), ('acme', 'call-2')`)
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	if _, err := s.Schedule(t.Context(), noon, schedule("call-1"), schedule("call-2")); err != nil {
		t.Fatal(err)
	}
	exec(t, db, `INSERT INTO notes VALUES ('acme', 'call-1', 'remember')`)
	before, entry := schemaOf(t, db), get(t, s, "call-1")
	for range 2 { // the second time changes nothing
		if err := sqlite.ReferenceServiceCalls(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	after := schemaOf(t, db)
	if len(after) != len(before) {
		t.Errorf("schema (-before +after):\n%s", cmp.Diff(before, after))
	}
	for i := range before {
		name, _, _ := strings.Cut(before[i], ":")
		if changed := before[i] != after[i]; changed != (name == "timer_schedules") {
			t.Errorf("%s: changed %v\n%s", name, changed, after[i])
		}
	}
	if diff := cmp.Diff(entry, get(t, s, "call-1")); diff != "" {
		t.Errorf("timer (-before +after):\n%s", diff)
	}
	for what, query := range map[string]string{
		"notes": `SELECT count(*) = 1 FROM notes`, "audit": `SELECT count(*) = 0 FROM audit`, "due": `SELECT count(*) = 2 FROM due`,
	} {
		var holds bool
		if err := db.QueryRowContext(t.Context(), query).Scan(&holds); err != nil || !holds {
			t.Errorf("%s: %s does not hold, %v", what, query, err)
		}
	}
	settings(t, db)
	exec(t, db, `DELETE FROM service_calls WHERE service_call_id = 'call-1'`)
	if _, err := s.Get(t.Context(), schedule("call-1").Key); !errors.Is(err, timer.ErrNotFound) {
		t.Errorf("a timer whose service call was deleted: %v, want ErrNotFound", err)
	}
	if e := get(t, s, "call-2"); e.State != timer.Scheduled {
		t.Errorf("another timer: %v", e)
	}
	if c, err := s.Stats(t.Context(), "acme"); err != nil || c.Counts != (timer.Counts{Scheduled: 1}) {
		t.Errorf("counts %+v, %v, want those without the timer that went with its service call", c, err)
	}
}

func get(t *testing.T, s *sqlite.Store, call timer.ServiceCallID) timer.Entry {
	t.Helper()
	e, err := s.Get(t.Context(), schedule(call).Key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestReferenced runs the contract of a store with the foreign key.
func TestReferenced(t *testing.T) {
	t.Parallel()
	storetest.Referenced(t, func(t testing.TB, calls []timer.ServiceCallID) storetest.Store {
		return referenced(t, filepath.Join(t.TempDir(), "host.db"), calls)
	})
}

func BenchmarkReferenced(b *testing.B) {
	storetest.BenchReferenced(b, func(t testing.TB, calls []timer.ServiceCallID) storetest.Store {
		return referenced(t, filepath.Join(t.TempDir(), "host.db"), calls)
	})
}

// referenced returns a store on a database with the foreign key, and with service
// calls of acme.
func referenced(t testing.TB, file string, calls []timer.ServiceCallID) *sqlite.Store {
	t.Helper()
	db := migrated(t, sqlite.DSN(file))
	exec(t, db, createServiceCalls)
	for some := range slices.Chunk(calls, 1000) {
		values := make([]string, len(some))
		for i, call := range some {
			values[i] = fmt.Sprintf("('acme', '%s')", call)
		}
		exec(t, db, `INSERT INTO service_calls VALUES `+strings.Join(values, ", "))
	}
	if err := sqlite.ReferenceServiceCalls(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	s := sqlite.New(db, sqlite.Options{})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRefusedByACheck applies commands that no validation has seen. Those beside
// them are applied.
func TestRefusedByACheck(t *testing.T) {
	t.Parallel()
	s := openFile(t, sqlite.Options{})
	isRefused := func(what string, r timer.Result) {
		t.Helper()
		if !errors.Is(r.Err, timer.ErrInvalid) || !strings.Contains(r.Err.Error(), "command_id_has_1_to_128_characters") {
			t.Errorf("%s: %+v, want it invalid by name of the rule", what, r)
		}
	}
	bad := schedule("call-1")
	bad.CommandID = strings.Repeat("x", 129)
	again := bad
	again.Key = schedule("call-0").Key
	results, err := s.Schedule(t.Context(), noon, schedule("call-0"), bad, schedule("call-2"), again)
	if err != nil {
		t.Fatal(err)
	}
	isRefused("schedule", results[1])
	isRefused("schedule again", results[3])
	get(t, s, "call-0")
	get(t, s, "call-2")
	canceled, err := s.Cancel(t.Context(), noon, timer.CancelTimer{Key: bad.Key, Version: bad.Version}, timer.CancelTimer{Key: schedule("call-2").Key, Version: bad.Version})
	if err != nil {
		t.Fatal(err)
	}
	isRefused("cancel", canceled[0])
	isRefused("cancel a timer", canceled[1])
	if c, err := s.Stats(t.Context(), "acme"); err != nil || c.Counts != (timer.Counts{Scheduled: 2}) {
		t.Errorf("counts %+v, %v, want two that are scheduled", c, err)
	}
}
