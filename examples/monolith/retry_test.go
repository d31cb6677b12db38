package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/timer"
)

// TestACallIsMadeWhenItsEndpointIsBack after three hours. Its timer is never parked.
func TestACallIsMadeWhenItsEndpointIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour) // bubbles begin with the year 2000, before which nothing may be due

		var calls *Orchestration
		due := time.Now().Add(time.Minute)
		made := make(chan any, 1)
		a := fxtest.New(t, fx.NopLogger, fx.Populate(&calls),
			fx.Provide(
				func(lc fx.Lifecycle) (*sql.DB, error) { return openDB(lc, filepath.Join(t.TempDir(), "calls.db")) },
				NewOrchestration,
				func() *slog.Logger { return slog.New(slog.DiscardHandler) },
				func() *Bus { return new(Bus) },
			),
			timerModule(),
			fx.Invoke(func(bus *Bus) {
				Subscribe(bus, func(ctx context.Context, s StartExecution) error {
					if time.Since(due) < 3*time.Hour {
						return errors.New("503 Service Unavailable")
					}
					return bus.Publish(ctx, ExecutionSucceeded{s.Key, "200 OK"})
				})
				Subscribe(bus, func(_ context.Context, e ExecutionSucceeded) error { made <- e; return nil })
			}),
		)
		a.RequireStart()
		defer a.RequireStop()
		if err := calls.Book(t.Context(), ServiceCall{Key: timer.Key{TenantID: "acme", ServiceCallID: "order-1"}, DueAt: due}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-made:
		case <-time.After(6 * time.Hour):
			t.Error("the call was not made hours after its endpoint is back")
		}
	})
}
