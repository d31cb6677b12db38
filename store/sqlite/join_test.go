package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/store/storetest"
	"github.com/event-service-agent/timer-service/timer"
)

// TestJoined runs the contract of commands in a host's transactions.
func TestJoined(t *testing.T) {
	t.Parallel()
	storetest.RunJoined(t, onHost, begin)
	storetest.JoinedReferenced(t, func(t testing.TB, calls []timer.ServiceCallID) storetest.JoinedStore {
		return referenced(t, filepath.Join(t.TempDir(), "host.db"), calls)
	}, begin)
}

// TestTransact runs the contract of transactions for a host, also on a file that the
// store opens itself.
func TestTransact(t *testing.T) {
	t.Parallel()
	t.Run("host", func(t *testing.T) { t.Parallel(); storetest.RunTransact(t, onHost) })
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		storetest.RunTransact(t, func(t testing.TB) storetest.JoinedStore {
			return openFile(t, relaxed)
		})
	})
}

// TestAnyMixOfTransactions compares the store with a model.
func TestAnyMixOfTransactions(t *testing.T) {
	t.Parallel()
	storetest.JoinedProperty(t, 100, onHost, begin)
}

func onHost(t testing.TB) storetest.JoinedStore {
	return sqlite.New(migrated(t, relaxedDSN(t)), sqlite.Options{})
}

func begin(t testing.TB, s storetest.JoinedStore) storetest.HostTx {
	return storetest.BeginSQL(t, s.DB(), s.Join)
}

// TestTransactionThatSQLiteEndedTakesNothing has a statement of the caller roll the
// transaction back. What comes after it would be committed by itself.
func TestTransactionThatSQLiteEndedTakesNothing(t *testing.T) {
	t.Parallel()
	s := sqlite.New(openHost(t), sqlite.Options{})
	exec(t, s.DB(), `CREATE TABLE orders (id INTEGER PRIMARY KEY)`, `INSERT INTO orders VALUES (1)`)
	emit(t, s, "call-1")
	row := head(t, s)
	err := s.Transact(t.Context(), func(tx *sql.Tx) error {
		joined := s.Join(tx)
		if _, err := joined.Schedule(t.Context(), noon, schedule("before")); err != nil {
			t.Error(err)
		}
		if _, err := tx.ExecContext(t.Context(), `INSERT OR ROLLBACK INTO orders VALUES (1)`); err == nil {
			t.Error("the statement of the caller did not fail")
		}
		if _, err := joined.Schedule(t.Context(), noon, schedule("after")); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("schedule: %v, want that the transaction has ended", err)
		}
		if _, err := s.Join(tx).Cancel(t.Context(), noon, timer.CancelTimer{Key: schedule("after").Key, Version: schedule("after").Version}); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("cancel: %v, want that the transaction has ended", err)
		}
		if taken, err := s.TakeEvent(t.Context(), tx, row.Place); taken || !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("take: %v, %v, want that the transaction has ended", taken, err)
		}
		return nil
	})
	if err == nil {
		t.Error("committed what SQLite has rolled back")
	}
	st, err := s.Stats(t.Context(), "")
	if got, want := st.Counts, (timer.Counts{}); got != want || st.Outbox != 1 || err != nil {
		t.Errorf("stats: %+v, %v, want one event and no timer", st, err)
	}
}

// TestJoinOfATransactionThatIsTooLate joins one that began to read before another
// wrote: it can't get the write lock any more.
func TestJoinOfATransactionThatIsTooLate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	s := sqlite.New(migrated(t, sqlite.DSN(path)), sqlite.Options{})
	tx, err := migrated(t, strings.Replace(sqlite.DSN(path), "_txlock=immediate", "_txlock=deferred", 1)).BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	var n int
	must(t, tx.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schedules`).Scan(&n))
	scheduled(t, s, "first")
	_, err = s.Join(tx).Schedule(t.Context(), noon, schedule("late"))
	if err == nil || !strings.Contains(err.Error(), "sqlite.DSN") || errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) {
		t.Errorf("schedule: %v, want one that says how to begin the transaction", err)
	}
}

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

// TestTriggersThatMayDropRowsAreRefused tries a trigger on each of our own tables. On
// timer_schedules a host may have triggers: a row that one of them drops is no success.
func TestTriggersThatMayDropRowsAreRefused(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	for _, table := range []string{"timer_outbox", "timer_outbox_deferred", "timer_outbox_parked", "timer_counts", "timer_database", "timer_decisions", "timer_firing", "timer_inbox", "timer_numbers", "timer_positions", "timer_schema"} {
		exec(t, db, `CREATE TRIGGER trap BEFORE INSERT ON `+table+` BEGIN SELECT RAISE(IGNORE); END`)
		s := sqlite.New(db, sqlite.Options{})
		if err := s.Prepare(t.Context()); !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), "may drop rows in silence: trap on "+table) {
			t.Errorf("%s: %v", table, err)
		}
		must(t, s.Close())
		exec(t, db, `DROP TRIGGER trap`)
	}
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	scheduled(t, s, "known")
	exec(t, db, `CREATE TRIGGER trap_new BEFORE INSERT ON timer_schedules BEGIN SELECT RAISE(IGNORE); END;
		CREATE TRIGGER trap_known BEFORE UPDATE ON timer_schedules BEGIN SELECT RAISE(IGNORE); END`)
	for _, call := range []timer.ServiceCallID{"known", "new"} {
		c := timer.CancelTimer{Key: schedule(call).Key, Version: timer.Version{TimestampMS: 2, CommandID: "cancel"}}
		if results, err := s.Cancel(t.Context(), noon, c); err != nil || !errors.Is(results[0].Err, timer.ErrInvalid) {
			t.Errorf("%s was dropped: %v, %v, want it refused", call, results, err)
		}
	}
}

// TestEventThatAHostRefusesHoldsUpNoOther has a trigger of the host refuse the timer of one of the
// events that a start reads. They have left the outbox, too.
func TestEventThatAHostRefusesHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	db := openHost(t)
	exec(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON timer_schedules WHEN NEW.service_call_id = 'refused' BEGIN SELECT RAISE(ABORT, 'not this'); END`)
	s := sqlite.New(db, sqlite.Options{})
	defer s.Close()
	events := make([]timer.DueTimeReached, 3)
	for i, call := range []timer.ServiceCallID{"before", "refused", "then"} {
		events[i] = timer.DueTimeReached{Key: schedule(call).Key, CommandID: "command", DueAt: noon, ReachedAt: noon}
	}
	must(t, s.Update(t.Context(), func(tx timer.Tx) error { return tx.Emit(t.Context(), events...) }))
	for i, want := range []int{2, 0} {
		if changed, err := s.Fired(t.Context(), time.Hour, events[i:]...); err != nil || changed != want {
			t.Errorf("reading %d: %d changed, %v, want %d", i, changed, err, want)
		}
	}
	if changed, err := s.Fired(t.Context(), time.Hour, events[1]); err != nil || changed != 0 {
		t.Errorf("it alone: %d changed, %v", changed, err)
	}
	if c, err := s.Stats(t.Context(), ""); err != nil || c.Reached != 2 || c.Outbox != 0 {
		t.Errorf("%+v, %v, want 2 Reached and an empty outbox", c, err)
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
		"the file": `SELECT integrity_check = 'ok' FROM pragma_integrity_check`,
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
