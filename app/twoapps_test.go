package app_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// TestAnAppRunsOnce, and says so the next time.
func TestAnAppRunsOnce(t *testing.T) {
	t.Parallel()
	db, err := openDatabase(filepath.Join(t.TempDir(), "host.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a, err := app.New(sqlite.New(db, sqlite.Options{}), gochannel.New(gochannel.Options{}, quiet), quiet, app.Options{RunBroker: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	<-a.Running()
	again := func() {
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "an App runs once") {
			t.Error(err)
		}
	}
	again()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	again()
}

// TestTwoModulesInOneProcessShareNothing runs two, each on a database and a broker of
// its own, with timers of the same keys. Nothing of the process is changed by them.
func TestTwoModulesInOneProcessShareNothing(t *testing.T) {
	t.Parallel()
	provider, propagator, defaultLog := otel.GetMeterProvider(), otel.GetTextMapPropagator(), slog.Default()
	before, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	type program struct {
		db     *sql.DB
		timers *app.Timers
		due    chan timer.DueTimeReached
	}
	programs := make([]program, 2)
	for i := range programs {
		p := &programs[i]
		p.due = make(chan timer.DueTimeReached, 10)
		if p.db, err = openDatabase(filepath.Join(t.TempDir(), "host.db")); err != nil {
			t.Fatal(err)
		}
		defer p.db.Close()
		module := fxtest.New(t,
			fx.NopLogger,
			fx.Supply(quiet, fx.Annotate(sqlite.New(p.db, sqlite.Options{}), fx.As(new(app.Store))), fx.Annotate(gochannel.New(gochannel.Options{}, quiet), fx.As(new(broker.Broker)))),
			app.Module(app.Options{RunBroker: true}),
			fx.Invoke(func(timers *app.Timers) {
				timers.OnDue("", func(_ context.Context, e timer.DueTimeReached) error { p.due <- e; return nil }, app.OnDueOptions{})
			}),
			fx.Populate(&p.timers),
		)
		module.RequireStart()
		defer module.RequireStop()
	}
	for i, p := range programs {
		if err := p.timers.Schedule(t.Context(), client.Timer{TenantID: "acme", ServiceCallID: "order-1", After: 10 * time.Millisecond, CorrelationID: name("program-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range programs {
		if e := <-p.due; e.CorrelationID != name("program-", i) {
			t.Errorf("program %d got the event of %s", i, e.CorrelationID)
		}
		if n, err := p.timers.Counts(t.Context(), "acme"); err != nil || n.Total() != 1 {
			t.Errorf("program %d has %+v, %v", i, n, err)
		}
	}
	after, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if otel.GetMeterProvider() != provider || otel.GetTextMapPropagator() != propagator || slog.Default() != defaultLog || len(after) != len(before) {
		t.Error("the global state of OpenTelemetry, Prometheus or slog was changed")
	}
	for _, p := range programs {
		if len(p.due) != 0 {
			t.Errorf("one more event: %+v", <-p.due)
		}
	}
}

// TestSecondAppOnADatabaseIsRefused where one of both has a handler: an event would go to
// either. It is refused at the start, and runs when the first one has stopped.
func TestSecondAppOnADatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, second, refused bool }{
		"both handle":        {true, true, true},
		"the first does":     {true, false, true},
		"the second does":    {false, true, true},
		"both have a broker": {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "host.db")
			start := func(handles bool) (ready <-chan struct{}, ended <-chan error, stop func()) {
				db, err := openDatabase(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				a, err := app.New(sqlite.New(db, sqlite.Options{}), gochannel.New(gochannel.Options{}, quiet), quiet, app.Options{RunBroker: true})
				if err != nil {
					t.Fatal(err)
				}
				if handles {
					a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
				}
				ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
				t.Cleanup(cancel)
				end := make(chan error, 1)
				go func() { end <- a.Run(ctx) }()
				return a.Running(), end, cancel
			}
			ready, first, stop := start(test.first)
			<-ready
			ready, second, stopSecond := start(test.second)
			select {
			case <-ready:
				if test.refused {
					t.Error("two apps on a database")
				}
				stopSecond()
				if err := <-second; err != nil {
					t.Error(err)
				}
			case err := <-second:
				if !test.refused || err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "make one app for both") {
					t.Errorf("%v", err)
				}
			}
			stop()
			if err := <-first; err != nil {
				t.Error(err)
			}
			ready, third, stop := start(test.second)
			<-ready
			stop()
			if err := <-third; err != nil {
				t.Error(err)
			}
		})
	}
}
