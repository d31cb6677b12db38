package sqlite_test

import (
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

// TestReferenceNeedsForeignKeys on the handle.
func TestReferenceNeedsForeignKeys(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	exec(t, db, `PRAGMA foreign_keys = off`)
	db.SetMaxOpenConns(1)
	if err := sqlite.ReferenceServiceCalls(t.Context(), db); err == nil || !strings.Contains(err.Error(), "sqlite.DSN") {
		t.Errorf("a handle without foreign keys: %v", err)
	}
}

// TestReferenceKeepsWhatIsThere checks that only the table changes, and by the
// foreign key only; not even a table of the host that refers to ours notices.
func TestReferenceKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	exec(t, db, storetest.CreateServiceCalls,
		`CREATE TABLE notes (tenant_id TEXT, service_call_id TEXT, text TEXT,
			FOREIGN KEY (tenant_id, service_call_id) REFERENCES timer_schedules (tenant_id, service_call_id) ON DELETE CASCADE)`,
		`CREATE VIEW due AS SELECT service_call_id FROM timer_schedules_iso`,
		`CREATE TABLE audit (service_call_id TEXT)`,
		`CREATE TRIGGER audit_timers AFTER DELETE ON timer_schedules BEGIN INSERT INTO audit VALUES (old.service_call_id); END`,
		`INSERT INTO service_calls VALUES ('acme', 'call-1'), ('acme', 'call-2')`)
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	scheduled(t, s, "call-1", "call-2")
	exec(t, db, `INSERT INTO notes VALUES ('acme', 'call-1', 'remember')`)
	before, entry := schemaOf(t, db), get(t, s, "call-1")
	for range 2 { // the second time changes nothing
		must(t, sqlite.ReferenceServiceCalls(t.Context(), db))
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
	exec(t, db, storetest.CreateServiceCalls)
	for some := range slices.Chunk(calls, 1000) {
		values := make([]string, len(some))
		for i, call := range some {
			values[i] = fmt.Sprintf("('acme', '%s')", call)
		}
		exec(t, db, `INSERT INTO service_calls VALUES `+strings.Join(values, ", "))
	}
	must(t, sqlite.ReferenceServiceCalls(t.Context(), db))
	s := sqlite.New(db, sqlite.Options{})
	t.Cleanup(func() {
		must(t, s.Close())
	})
	return s
}
