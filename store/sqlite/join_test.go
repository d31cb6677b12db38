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

// TestTransactionThatSQLiteEndedTakesNothing has a statement of the host's roll the
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
			t.Error("the host's statement did not fail")
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
