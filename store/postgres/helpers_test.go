package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

// relaxed is what tests need: the power is not cut.
var relaxed = postgres.Options{Durability: postgres.Relaxed}

func schedule(call timer.ServiceCallID) timer.ScheduleTimer {
	return timer.ScheduleTimer{
		Key:     timer.Key{TenantID: "acme", ServiceCallID: call},
		Version: timer.Version{TimestampMS: 1, CommandID: "command"}, DueAt: noon,
	}
}

func cancel(call timer.ServiceCallID) timer.CancelTimer {
	return timer.CancelTimer{Key: schedule(call).Key, Version: timer.Version{TimestampMS: 2, CommandID: "cancel"}}
}

func open(t testing.TB, url string, opt postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, opt)
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

// migrated returns the handle of a host.
func migrated(t testing.TB, url string) *sql.DB {
	t.Helper()
	db := handle(t, url)
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func handle(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func run(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
}

// reach returns the service calls that a transaction reaches at noon.
func reach(t testing.TB, s *postgres.Store, limit int) (calls []timer.ServiceCallID) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), noon, limit, nil)
		for _, e := range entries {
			calls = append(calls, e.ServiceCallID)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	return calls
}

func get(t testing.TB, s *postgres.Store, call timer.ServiceCallID) timer.Entry {
	t.Helper()
	e, err := s.Get(t.Context(), schedule(call).Key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func scheduled(t testing.TB, s *postgres.Store, calls ...timer.ServiceCallID) {
	t.Helper()
	commands := make([]timer.ScheduleTimer, len(calls))
	for i, call := range calls {
		commands[i] = schedule(call)
	}
	if _, err := s.Schedule(t.Context(), noon, commands...); err != nil {
		t.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
