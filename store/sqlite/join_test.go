package sqlite_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

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
			return openFile(t, sqlite.Options{Durability: sqlite.Relaxed})
		})
	})
}

// TestAnyMixOfTransactions compares the store with a model.
func TestAnyMixOfTransactions(t *testing.T) {
	t.Parallel()
	storetest.JoinedProperty(t, 100, onHost, begin)
}

func onHost(t testing.TB) storetest.JoinedStore {
	relaxed := strings.Replace(sqlite.DSN(filepath.Join(t.TempDir(), "host.db")), "synchronous%28full%29", "synchronous%28normal%29", 1)
	return sqlite.New(migrated(t, relaxed), sqlite.Options{})
}

func begin(t testing.TB, s storetest.JoinedStore) storetest.HostTx {
	return storetest.BeginSQL(t, s.DB(), s.Join)
}

// TestTransactionThatSQLiteEndedTakesNothing has a statement of the host's roll the
// transaction back. What comes after it would be committed by itself.
func TestTransactionThatSQLiteEndedTakesNothing(t *testing.T) {
	t.Parallel()
	s := sqlite.New(openHost(t), sqlite.Options{})
	exec(t, s.DB(), `CREATE TABLE orders (id INTEGER PRIMARY KEY)`, `INSERT INTO orders VALUES (1)`)
	event := timer.DueTimeReached{Key: schedule("call-1").Key, CommandID: "command", DueAt: noon, ReachedAt: noon}
	if err := s.Update(t.Context(), func(tx timer.Tx) error { return tx.Emit(t.Context(), event) }); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Head(t.Context(), 0, 1)
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	err = s.Transact(t.Context(), func(tx *sql.Tx) error {
		joined := s.Join(tx)
		if _, err := joined.Schedule(t.Context(), noon, schedule("before")); err != nil {
			t.Error(err)
		}
		if _, err := tx.ExecContext(t.Context(), `INSERT OR ROLLBACK INTO orders VALUES (1)`); err == nil {
			t.Error("the host's statement did not fail")
		}
		if _, err := joined.Schedule(t.Context(), noon, schedule("after")); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("schedule: %v, want that the transaction has ended", err)
		}
		if _, err := s.Join(tx).Cancel(t.Context(), noon, timer.CancelTimer{Key: schedule("after").Key, Version: schedule("after").Version}); !errors.Is(err, sql.ErrTxDone) {
			t.Errorf("cancel: %v, want that the transaction has ended", err)
		}
		if taken, err := s.TakeEvent(t.Context(), tx, rows[0].Place); taken || !errors.Is(err, sql.ErrTxDone) {
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

// TestJoinNeedsTheDatabaseOfTheTimers joins transactions on the file of the timers
// through another handle, and on other files.
func TestJoinNeedsTheDatabaseOfTheTimers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	s := sqlite.New(migrated(t, sqlite.DSN(path)), sqlite.Options{})
	empty, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "empty.db")))
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	for _, c := range []struct {
		name string
		on   *sql.DB
		want string // in the error; empty: none
	}{
		{"same", migrated(t, sqlite.DSN(path)), ""},
		{"other", openHost(t), "begin it on the database of the timers"},
		{"empty", empty, "sees no timers"},
	} {
		tx, err := c.on.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Join(tx).Schedule(t.Context(), noon, schedule(timer.ServiceCallID(c.name)))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || errors.Is(err, timer.ErrFatal) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if _, err := tx.ExecContext(t.Context(), `CREATE TABLE goes_on (x)`); err != nil {
			t.Errorf("%s: the transaction does not go on: %v", c.name, err)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if c.want != "" && c.on != empty {
			if n, err := sqlite.New(c.on, sqlite.Options{}).Stats(t.Context(), "acme"); n != (timer.Stats{}) || err != nil {
				t.Errorf("%s: left %+v, %v", c.name, n, err)
			}
		}
	}
	if n, err := s.Stats(t.Context(), "acme"); n.Scheduled != 1 || err != nil {
		t.Errorf("scheduled %+v, %v, want one", n, err)
	}
}

// TestJoinOfATransactionThatIsTooLate joins one that began to read before another
// wrote: it can't get the write lock any more.
func TestJoinOfATransactionThatIsTooLate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "host.db")
	s := sqlite.New(migrated(t, sqlite.DSN(path)), sqlite.Options{})
	tx, err := migrated(t, strings.Replace(sqlite.DSN(path), "_txlock=immediate", "_txlock=deferred", 1)).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM timer_schedules`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Schedule(t.Context(), noon, schedule("first")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Join(tx).Schedule(t.Context(), noon, schedule("late"))
	if err == nil || !strings.Contains(err.Error(), "sqlite.DSN") || errors.Is(err, timer.ErrInvalid) || errors.Is(err, timer.ErrFatal) {
		t.Errorf("schedule: %v, want one that says how to begin the transaction", err)
	}
}
