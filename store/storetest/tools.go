package storetest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// These are the tools of the tests that one kind of database has for itself. Their timers are
// those of acme, and due at noon.

// Noon is the present of most cases.
func Noon() time.Time { return noon }

// Must ends a test with an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Opened returns a value that was opened, and closes it when the test ends.
func Opened[T interface{ Close() error }](t testing.TB, opened T, err error) T {
	t.Helper()
	Must(t, err)
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened
}

// Exec runs statements on a handle or in a transaction.
func Exec(t testing.TB, on interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}, statements ...string,
) {
	t.Helper()
	for _, text := range statements {
		if _, err := on.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
}

// Timer returns a command that schedules a timer.
func Timer(call timer.ServiceCallID) timer.ScheduleTimer {
	return timer.ScheduleTimer{Key: key("acme", call), Version: timer.Version{TimestampMS: 1, CommandID: "command"}, DueAt: noon}
}

// Cancellation returns a command that cancels a timer.
func Cancellation(call timer.ServiceCallID) timer.CancelTimer {
	return timer.CancelTimer{Key: key("acme", call), Version: timer.Version{TimestampMS: 2, CommandID: "cancel"}}
}

// Schedule schedules timers in one call.
func Schedule(t testing.TB, s timer.Commands, calls ...timer.ServiceCallID) {
	t.Helper()
	commands := make([]timer.ScheduleTimer, len(calls))
	for i, call := range calls {
		commands[i] = Timer(call)
	}
	_, err := s.Schedule(t.Context(), noon, commands...)
	Must(t, err)
}

// Cancel cancels timers in one call.
func Cancel(t testing.TB, s timer.Commands, calls ...timer.ServiceCallID) {
	t.Helper()
	commands := make([]timer.CancelTimer, len(calls))
	for i, call := range calls {
		commands[i] = Cancellation(call)
	}
	_, err := s.Cancel(t.Context(), noon, commands...)
	Must(t, err)
}

// Get returns a timer.
func Get(t testing.TB, s timer.Reader, call timer.ServiceCallID) timer.Entry {
	t.Helper()
	e, err := s.Get(t.Context(), key("acme", call))
	Must(t, err)
	return e
}

// Reach returns the service calls of the timers that a transaction reaches.
func Reach(t testing.TB, s timer.Store, now time.Time, limit int) (calls []timer.ServiceCallID, err error) {
	t.Helper()
	err = s.Update(t.Context(), func(tx timer.Tx) error {
		entries, err := tx.Reach(t.Context(), now, limit, nil)
		for _, e := range entries {
			calls = append(calls, e.ServiceCallID)
		}
		return err
	})
	return calls, err
}

// Emit appends the event of a timer to the outbox.
func Emit(ctx context.Context, s timer.Store, call timer.ServiceCallID) error {
	event := timer.DueTimeReached{Key: key("acme", call), CommandID: "command", DueAt: noon, ReachedAt: noon}
	return s.Update(ctx, func(tx timer.Tx) error { return tx.Emit(ctx, event) })
}
