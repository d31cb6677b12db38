package app_test

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
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
				timers.OnDue(func(_ context.Context, e timer.DueTimeReached) error { p.due <- e; return nil }, app.OnDueOptions{})
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
