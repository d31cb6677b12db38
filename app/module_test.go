package app_test

import (
	"context"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A host owns a database with several connections, and a broker that runs.
type host struct {
	path   string
	db     *sql.DB
	broker broker.Broker
}

func newHost(t *testing.T) *host {
	h := &host{path: filepath.Join(t.TempDir(), "host.db")}
	var err error
	if h.db, err = sql.Open("sqlite", sqlite.DSN(h.path)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.db.Close() })
	if err := sqlite.Migrate(t.Context(), h.db); err != nil {
		t.Fatal(err)
	}
	h.broker = gochannel.New(gochannel.Options{}, quiet)
	running(t, "broker", h.broker.Run)
	for h.broker.Ready(t.Context()) != nil {
		runtime.Gosched()
	}
	return h
}

func (h *host) module(s app.Store) fx.Option {
	return fx.Options(
		fx.NopLogger,
		fx.Supply(h.db, slog.New(slog.DiscardHandler)),
		fx.Provide(
			func() app.Store { return s },
			func() broker.Broker { return h.broker },
		),
		app.Module(app.Options{}),
	)
}

func TestModuleRunsOnTheHostsDatabaseAndClosesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	events, err := h.broker.Tail().Subscribe(t.Context(), h.broker.Routing().EventsOf("acme"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // what was not closed can be used again
		s := sqlite.New(h.db, sqlite.Options{})
		module := fxtest.New(t, h.module(s))
		module.RequireStart()
		c := timer.ScheduleTimer{
			Key:     timer.Key{TenantID: "acme", ServiceCallID: timer.ServiceCallID(name("call-", round))},
			Version: timer.Version{TimestampMS: time.Now().UnixMilli(), CommandID: "c-1"},
			DueAt:   time.Now(),
		}
		if err := broker.NewWatermillPublisher(h.broker.Publisher()).Publish(h.broker.Routing().CommandsOf("acme"), message.NewMessage("c-1", envelope.Schedule(c))); err != nil {
			t.Fatal(err)
		}
		msg := <-events
		msg.Ack()
		module.RequireStop()
		if err := h.db.PingContext(t.Context()); err != nil {
			t.Errorf("the host's database after the stop: %v", err)
		}
		if err := h.broker.Ready(t.Context()); err != nil {
			t.Errorf("the host's broker after the stop: %v", err)
		}
	}
}

func TestModuleShutsTheHostDownWhenItDies(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	module := fx.New(h.module(sqlite.New(h.db, sqlite.Options{})))
	if err := module.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(h.path); err != nil { // noticed within a second
		t.Fatal(err)
	}
	if end := <-module.Wait(); end.ExitCode == 0 {
		t.Errorf("the host is shut down with exit code %d", end.ExitCode)
	}
	if err := module.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "database file") {
		t.Errorf("Stop: %v, want what the module died of", err)
	}
}

func TestModuleDoesNotStartOnADatabaseWithoutItsTables(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	if _, err := h.db.ExecContext(t.Context(), `DELETE FROM timer_schema`); err != nil {
		t.Fatal(err)
	}
	err := fx.New(h.module(sqlite.New(h.db, sqlite.Options{}))).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("Start: %v, want an error that says to migrate", err)
	}
}

// TestModulesOfAnApplicationBringTheirHandlers, each with a prefix.
func TestModulesOfAnApplicationBringTheirHandlers(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	due := make(chan string, 10)
	var timers *app.Timers
	program := fxtest.New(t,
		h.module(sqlite.New(h.db, sqlite.Options{})),
		fx.Module("orders", app.ProvideHandler(func(timers *app.Timers) app.Handler {
			return app.Handler{Prefix: "order-", Handle: func(ctx context.Context, e timer.DueTimeReached) error {
				due <- "orders has " + string(e.ServiceCallID)
				return timers.Schedule(ctx, in("invoice-1", 0))
			}}
		})),
		fx.Module("invoices", app.ProvideHandler(func() app.Handler {
			return app.Handler{Prefix: "invoice-", HandleTx: func(_ context.Context, _ *sql.Tx, e timer.DueTimeReached) error {
				due <- "invoices has " + string(e.ServiceCallID)
				return nil
			}}
		})),
		fx.Populate(&timers),
	)
	if err := timers.Schedule(t.Context(), in("order-1", 0)); err != nil { // before the start
		t.Fatal(err)
	}
	program.RequireStart()
	defer program.RequireStop()
	if first, second := <-due, <-due; first != "orders has order-1" || second != "invoices has invoice-1" {
		t.Errorf("%s, then %s", first, second)
	}
}

// TestTimersStartAfterWhatTheirHandlersNeed, and nothing is handled before.
func TestTimersStartAfterWhatTheirHandlersNeed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	due := make(chan struct{})
	ready := false
	program := fxtest.New(t,
		h.module(sqlite.New(h.db, sqlite.Options{})),
		app.ProvideHandler(func(lc fx.Lifecycle, timers *app.Timers) (app.Handler, error) {
			lc.Append(fx.StartHook(func() { ready = true }))
			return app.Handler{Handle: func(context.Context, timer.DueTimeReached) error {
				if !ready {
					t.Error("an event was handled before the start")
				}
				close(due)
				return nil
			}}, timers.Schedule(context.Background(), in("order-1", 0))
		}),
	)
	program.RequireStart()
	defer program.RequireStop()
	<-due
}
