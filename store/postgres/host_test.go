package postgres_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // a driver that is not pgx's

	"github.com/event-service-agent/timer-service/internal/pgtest"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// TestOtherDriverIsRefused gives the store a handle that is not of pgx.
func TestOtherDriverIsRefused(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	defer db.Close()
	s := postgres.New(db, postgres.Options{})
	_, scheduled := s.Schedule(t.Context(), noon, schedule("call-1"))
	_, read := s.Get(t.Context(), schedule("call-1").Key)
	for what, err := range map[string]error{"Schedule": scheduled, "Get": read, "Migrate": postgres.Migrate(t.Context(), db), "Prepare": s.Prepare(t.Context())} {
		if !errors.Is(err, timer.ErrFatal) || !strings.Contains(err.Error(), `open it with pgx's, sql.Open("pgx", url)`) {
			t.Errorf("%s: %v, want it to name the driver", what, err)
		}
	}
}

// TestHostWithOtherDefaults uses a database whose sessions begin as ours must not.
func TestHostWithOtherDefaults(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	migrated(t, place)
	db := handle(t, place+"&default_transaction_isolation=serializable&default_transaction_read_only=on&bytea_output=escape"+
		"&default_query_exec_mode=simple_protocol")
	a, b := postgres.New(db, relaxed), postgres.New(db, relaxed)
	scheduled(t, a, "call-1", "call-2")
	if err := a.Update(t.Context(), func(tx timer.Tx) error {
		if _, err := tx.Reach(t.Context(), noon, 1, nil); err != nil {
			return err
		}
		if got := reach(t, b, 1); len(got) != 1 {
			t.Errorf("reached %v beside another, want one", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestHostWithOneConnection leaves no connection to anybody else.
func TestHostWithOneConnection(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	migrated(t, place)
	db := handle(t, place)
	db.SetMaxOpenConns(1)
	s := postgres.New(db, relaxed)
	scheduled(t, s, "call-1")
	if got := reach(t, s, 1); len(got) != 1 {
		t.Errorf("reached %v", got)
	}
}

// TestMigrateWithOneConnectionIsRefused would wait for ever.
func TestMigrateWithOneConnectionIsRefused(t *testing.T) {
	t.Parallel()
	db := handle(t, pgtest.URL(t))
	db.SetMaxOpenConns(1)
	if err := postgres.Migrate(t.Context(), db); err == nil || !strings.Contains(err.Error(), "two are needed") {
		t.Errorf("migrate: %v", err)
	}
}

// waits returns when a session that uses our tables waits for a lock.
func waits(t *testing.T, db *sql.DB) {
	t.Helper()
	const query = `
		SELECT EXISTS (
		       SELECT 1
		         FROM pg_locks AS waits
		         JOIN pg_locks AS uses USING (pid)
		        WHERE NOT waits.granted AND uses.relation = 'timer_schedules'::regclass)`
	for waiting := false; !waiting; {
		must(t, db.QueryRowContext(t.Context(), query).Scan(&waiting))
	}
}

// TestReachPassesByWhatAnotherHolds has one instance in the middle of a
// transaction: the other one takes the rest, and waits for nothing.
func TestReachPassesByWhatAnotherHolds(t *testing.T) {
	t.Parallel()
	place := pgtest.URL(t)
	a, b := open(t, place, relaxed), open(t, place, relaxed)
	scheduled(t, a, "call-1", "call-2", "call-3", "call-4", "call-5")
	ours := errors.New("ours")
	err := a.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon, 2, nil) // backlogged
		if err != nil || len(entries) != 2 {
			t.Errorf("reached %d, %v, want 2", len(entries), err)
		}
		if got := reach(t, b, 1); len(got) != 1 { // backlogged too
			t.Errorf("the other one reached %v, want one", got)
		}
		if got := reach(t, b, 10); len(got) != 2 {
			t.Errorf("the other one reached %v, want the rest", got)
		}
		next, err := b.NextDue(t.Context(), time.Time{})
		if err != nil || !next.Equal(noon) {
			t.Errorf("next due: %v, %v", next, err)
		}
		return ours
	})
	if !errors.Is(err, ours) {
		t.Error(err)
	}
	if got := reach(t, b, 10); len(got) != 2 {
		t.Errorf("given back were %v, want 2", got)
	}
}

// TestPurgePassesByWhatAnotherHolds locks a timer that is over.
func TestPurgePassesByWhatAnotherHolds(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	canceled(t, s, "call-1", "call-2")
	host, err := s.DB().BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = host.Rollback() }()
	run(t, host, `SELECT 1 FROM timer_schedules WHERE service_call_id = 'call-1' FOR UPDATE`)
	deleted, err := s.Purge(t.Context(), noon.Add(time.Hour), 10)
	if err != nil || deleted != 1 {
		t.Errorf("purged %d, %v, want the one that is not locked", deleted, err)
	}
}

// TestTimerThatIsPurgedMeanwhileIsScheduledAnew purges one of two timers after a
// command has found both, and before it has locked them.
func TestTimerThatIsPurgedMeanwhileIsScheduledAnew(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), relaxed)
	canceled(t, s, "call-1", "call-2")
	host, err := s.DB().BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = host.Rollback() }()
	run(t, host, `SELECT 1 FROM timer_schedules WHERE service_call_id = 'call-1' FOR UPDATE`)
	outcomes := make(chan []timer.Result)
	go func() {
		again := []timer.ScheduleTimer{schedule("call-1"), schedule("call-2")}
		for i := range again {
			again[i].TimestampMS = 3
		}
		got, err := s.Schedule(t.Context(), noon, again...)
		if err != nil {
			t.Error(err)
		}
		outcomes <- got
	}()
	waits(t, s.DB())
	if deleted, err := s.Purge(t.Context(), noon.Add(time.Hour), 10); err != nil || deleted != 1 {
		t.Errorf("purged %d, %v, want call-2", deleted, err)
	}
	must(t, host.Rollback())
	if got := <-outcomes; !slices.Equal(got, slices.Repeat([]timer.Result{{Outcome: timer.DidSchedule}}, 2)) {
		t.Errorf("the commands got %v", got)
	}
	for _, call := range []timer.ServiceCallID{"call-1", "call-2"} {
		if e := get(t, s, call); e.State != timer.Scheduled {
			t.Errorf("%s is %s", call, e.State)
		}
	}
}
