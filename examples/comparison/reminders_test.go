package comparison

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
	"github.com/event-service-agent/timer-service/timertest"
)

// TestRemind is the test that docs/comparison.md counts.
func TestRemind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := timertest.Start(t, timertest.OnDue("", remind, app.OnDueOptions{}), timertest.Options(app.Options{PollingInterval: time.Hour}))
		if err := schedule(t.Context(), svc.App().Timers(), 3*time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		svc.AwaitIdle()
		if fired := svc.Fired("acme"); len(fired) != 1 || fired[0].ReachedAt.Before(fired[0].DueAt) {
			t.Errorf("%+v", fired)
		}
	})
}

// TestTasks does the others with the set-up of a program.
func TestTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", sqlite.DSN(filepath.Join(t.TempDir(), "host.db")))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		a, err := New(t.Context(), db, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		began, timers := time.Now(), a.Timers()
		for _, step := range []struct {
			do    func() error
			state timer.State
			due   time.Duration
		}{
			{func() error { return schedule(ctx, timers, 3*time.Hour) }, timer.Scheduled, 3 * time.Hour},
			{func() error { return schedule(ctx, timers, 5*time.Hour) }, timer.Scheduled, 5 * time.Hour},
			{func() error { return cancel(ctx, timers) }, timer.Canceled, 5 * time.Hour},
			{func() error { return schedule(ctx, timers, 2*time.Hour) }, timer.Scheduled, 2 * time.Hour},
			{func() error { return cancelOrder(ctx, timers) }, timer.Canceled, 2 * time.Hour},
		} {
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			e, err := timers.Get(ctx, timer.Key{TenantID: "acme", ServiceCallID: "order-42.pay"})
			if due := e.DueAt.Sub(began).Round(time.Minute); err != nil || e.State != step.state || due != step.due {
				t.Errorf("%s, due after %v, %v; want %s, %v", e.State, due, err, step.state, step.due)
			}
		}
		later := timer.Key{TenantID: "acme", ServiceCallID: "order-42.later"}
		if err := timers.Schedule(ctx, client.Timer{TenantID: later.TenantID, ServiceCallID: later.ServiceCallID, After: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(150 * time.Minute) // it is put off for an hour each time
		retry, err := a.NextEvent(ctx)
		if again := retry.Sub(began).Round(time.Minute); err != nil || again != 181*time.Minute {
			t.Errorf("its event comes again after %v, %v", again, err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
