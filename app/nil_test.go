package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/nats"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestNilIsNamed gives nil where something is needed.
func TestNilIsNamed(t *testing.T) {
	inBubble(t, func(b *bench) {
		timers := b.program(app.Options{})
		for name, call := range map[string]func() error{
			"app.New needs a store":        func() error { _, err := app.New(nil, nil, quiet, app.Options{}); return err },
			"app.New needs a store, and":   func() error { _, err := app.New((*sqlite.Store)(nil), nil, quiet, app.Options{}); return err },
			"app.New needs a *slog.Logger": func() error { _, err := app.New(b.store, nil, nil, app.Options{}); return err },
			"app.New needs a broker":       func() error { _, err := app.New(b.store, (*nats.Broker)(nil), quiet, app.Options{}); return err },
			"app.Options.Middleware needs": func() error {
				_, err := app.New(b.store, nil, quiet, app.Options{Middleware: []message.HandlerMiddleware{nil}})
				return err
			},
			"Timers.Tx needs a function": func() error { return timers.Tx(b.Context(), nil) },
			"app.Tx needs a Transactor":  func() error { return app.Tx(b.Context(), timers, nil, func(*sql.Tx, app.Joined) error { return nil }) },
			"Timers.ScheduleTx needs":    func() error { return timers.ScheduleTx(b.Context(), nil, client.Timer{}) },
			"Timers.CancelTx needs":      func() error { return timers.CancelTx(b.Context(), nil, keyOf("x")) },
			"Timers.RescheduleWhereTx needs": func() error {
				_, err := timers.RescheduleWhereTx(b.Context(), nil, "acme", timer.Selection{}, timer.Move{})
				return err
			},
			"Timers.CancelWhereTx needs": func() error { _, err := timers.CancelWhereTx(b.Context(), nil, "acme", timer.Selection{}); return err },
		} {
			if err := call(); err == nil || !strings.Contains(err.Error(), name) {
				b.Errorf("%v, want one that says %q", err, name)
			}
		}
	})
}

// TestConstructorsNameNil calls the constructors that return no error.
func TestConstructorsNameNil(t *testing.T) {
	t.Parallel()
	clock := timer.ClockFunc(time.Now)
	for want, call := range map[string]func(){
		"poller.New needs a store":     func() { poller.New(nil, clock, quiet, poller.Options{}) },
		"handlers.New needs a store":   func() { handlers.New(nil, nil, broker.Routing{}, nil, nil, clock, quiet, handlers.Options{}) },
		"outbox.New needs a publisher": func() { outbox.New(outbox.Outbox{}, nil, nil, clock, quiet, outbox.Options{}) },
		"client.New needs a publisher": func() { client.New(nil, broker.Routing{Commands: "timer.commands"}, client.Options{}) },
		"client.OnDue needs a router": func() {
			client.OnDue(nil, nil, func(context.Context, timer.DueTimeReached) error { return nil }, client.OnDueOptions{Topic: "events"})
		},
		"app.KeepRunning needs a fx.":   func() { app.KeepRunning(nil, nil, quiet, "", nil, nil, 0) },
		"app.KeepBroker needs a broker": func() { app.KeepBroker(nil, nil, quiet, nil) },
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, want) {
					t.Errorf("it says %q, want %q", said, want)
				}
			}()
			call()
		}()
	}
}
