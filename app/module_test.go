package app_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/fx"
	"go.uber.org/fx/fxtest"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/gochannel"
	"github.com/event-service-agent/timer-service/store/sqlite"
	"github.com/event-service-agent/timer-service/timer"
)

// A host owns a database with several connections, and a broker that runs.
type host struct {
	*testing.T
	path   string
	db     *sql.DB
	broker broker.Broker
}

func newHost(t *testing.T) *host {
	t.Parallel()
	h := &host{T: t, path: filepath.Join(t.TempDir(), "host.db"), broker: inMemory(t)}
	var err error
	h.db, err = openDatabase(h.path)
	must(t, err)
	t.Cleanup(func() { _ = h.db.Close() })
	return h
}

// program is the host with the module and more.
func (h *host) program(more ...fx.Option) *fxtest.App {
	return fxtest.New(h, h.module(), fx.Options(more...))
}

func (h *host) module() fx.Option {
	return fx.Options(
		fx.NopLogger,
		fx.Supply(quiet),
		fx.Provide(
			func() app.Store { return sqlite.New(h.db, sqlite.Options{}) },
			func() broker.Broker { return h.broker },
		),
		app.Module(app.Options{}),
	)
}

func TestModuleRunsOnTheHostsDatabaseAndClosesNothing(t *testing.T) {
	h := newHost(t)
	b := &bench{T: t, broker: h.broker}
	b.consume()
	for round := range 2 { // the store and the broker were not closed, and can be used again
		module := h.program()
		module.RequireStart()
		b.schedule(name("call-", round), time.Now())
		b.next()
		module.RequireStop()
		must(t, h.db.PingContext(t.Context()))
		must(t, h.broker.Ready(t.Context()))
	}
}

func TestModuleShutsTheHostDownWhenItDies(t *testing.T) {
	h := newHost(t)
	module := fx.New(h.module())
	must(t, module.Start(t.Context()))
	must(t, os.Remove(h.path)) // noticed within a second
	if end := <-module.Wait(); end.ExitCode == 0 {
		t.Errorf("the host is shut down with exit code %d", end.ExitCode)
	}
	if err := module.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "database file") {
		t.Errorf("Stop: %v, want the error that the module died of", err)
	}
}

func TestModuleDoesNotStartOnADatabaseWithoutItsTables(t *testing.T) {
	h := newHost(t)
	_, err := h.db.ExecContext(t.Context(), `DELETE FROM timer_schema`)
	must(t, err)
	if err := fx.New(h.module()).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("Start: %v, want an error that says to migrate", err)
	}
}

// TestModulesOfAnApplicationBringTheirHandlers, each with a prefix. The timers start after
// what their handlers need, and nothing is handled before.
func TestModulesOfAnApplicationBringTheirHandlers(t *testing.T) {
	h := newHost(t)
	due := make(chan string, 10)
	var timers *app.Timers
	ready := false
	program := h.program(
		fx.Module("orders", app.ProvideHandler(func(lc fx.Lifecycle, timers *app.Timers) app.Handler {
			lc.Append(fx.StartHook(func() { ready = true }))
			return app.Handler{Prefix: "order-", Handle: func(ctx context.Context, e timer.DueTimeReached) error {
				if !ready {
					t.Error("an event was handled before the start")
				}
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
	must(t, timers.Schedule(t.Context(), in("order-1", 0))) // before the start
	program.RequireStart()
	defer program.RequireStop()
	if first, second := <-due, <-due; first != "orders has order-1" || second != "invoices has invoice-1" {
		t.Errorf("%s, then %s", first, second)
	}
}

// begin runs an app on a handle of its own, with a handler or without.
func begin(t *testing.T, path string, handles bool) (a *app.App, ended <-chan error, stop func()) {
	t.Helper()
	db, err := openDatabase(path)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	a, err = app.New(sqlite.New(db, sqlite.Options{}), gochannel.New(gochannel.Options{}, quiet), quiet, app.Options{RunBroker: true})
	must(t, err)
	if handles {
		a.Timers().OnDue("", func(context.Context, timer.DueTimeReached) error { return nil }, app.OnDueOptions{})
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() { end <- a.Run(ctx) }()
	return a, end, cancel
}

// An unpreparedStore can't be prepared before the stop.
type unpreparedStore struct {
	app.Store
	stop func()
}

func (u unpreparedStore) Prepare(ctx context.Context) error {
	u.stop()
	return ctx.Err()
}

// Lock locks nothing, as on PostgreSQL.
func (unpreparedStore) Lock(context.Context) (unlock func() error, err error) {
	return func() error { return nil }, nil
}

// TestNoPartStartsAfterAStop during the preparation of the store.
func TestNoPartStartsAfterAStop(t *testing.T) {
	onBrokers(t, func(b *bench) {
		ctx, stop := context.WithCancel(b.Context())
		b.broker = &moodyBroker{b.broker, func() error {
			b.Error("the commands were claimed")
			return nil
		}}
		must(b, b.app(unpreparedStore{b.store, stop}, app.Options{}).Run(ctx))
	})
}

// TestAnAppRunsOnce, and says so the next time.
func TestAnAppRunsOnce(t *testing.T) {
	t.Parallel()
	a, ended, stop := begin(t, filepath.Join(t.TempDir(), "host.db"), false)
	<-a.Running()
	again := func() {
		if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "an App runs once") {
			t.Error(err)
		}
	}
	again()
	stop()
	must(t, <-ended)
	again()
}

// TestSecondAppOnAFileIsRefused at the start, by name, and runs when the first one has stopped.
func TestSecondAppOnAFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ first, second bool }{
		"both handle":        {true, true}, // an event would go to either
		"the first does":     {true, false},
		"the second does":    {false, true},
		"both have a broker": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "host.db")
			a, first, stop := begin(t, path, test.first)
			<-a.Running()
			b, second, stopSecond := begin(t, path, test.second)
			select {
			case <-b.Running():
				t.Error("two apps on a database")
				stopSecond()
				must(t, <-second)
			case err := <-second:
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "make one app for both") {
					t.Errorf("%v", err)
				}
			}
			stop()
			must(t, <-first)
			c, third, stop := begin(t, path, test.second)
			<-c.Running()
			stop()
			must(t, <-third)
		})
	}
}

// TestHandlersThatCanNotWorkAreErrorsAtTheStart: it names each, by the line of its module.
func TestHandlersThatCanNotWorkAreErrorsAtTheStart(t *testing.T) {
	t.Parallel()
	handle := func(context.Context, timer.DueTimeReached) error { return nil }
	handleTx := func(context.Context, *sql.Tx, timer.DueTimeReached) error { return nil }
	provide := func(all ...app.Handler) fx.Option {
		var options []fx.Option
		for _, on := range all {
			options = append(options, fx.Module("module", app.ProvideHandler(func() app.Handler { return on })))
		}
		return fx.Options(options...)
	}
	invoke := func(register func(*app.Timers)) fx.Option { return fx.Invoke(register) }
	const here = "TestHandlersThatCanNotWorkAreErrorsAtTheStart"
	for name, test := range map[string]struct {
		program fx.Option
		want    []string
	}{
		"without a function":        {provide(app.Handler{Prefix: "order-"}), []string{`"order-"`, "no function", here, "module_test.go:"}},
		"with both functions":       {provide(app.Handler{Prefix: "order-", Handle: handle, HandleTx: handleTx}), []string{`"order-"`, "both Handle and HandleTx", here}},
		"a second one":              {provide(app.Handler{Handle: handle}, app.Handler{HandleTx: handleTx}), []string{`""`, "already", here}},
		"with an impossible prefix": {provide(app.Handler{Prefix: "no prefix", Handle: handle}), []string{`"no prefix"`, here}},
		"two that are wrong":        {provide(app.Handler{Prefix: "a-"}, app.Handler{Prefix: "b-"}), []string{`"a-"`, `"b-"`}},
		"provided without ProvideHandler": {
			fx.Supply(fx.Annotate(app.Handler{Prefix: "order-"}, fx.ResultTags(`group:"timer_handlers"`))), []string{`"order-"`, "no function"},
		},
		"OnDue without a function":   {invoke(func(timers *app.Timers) { timers.OnDue("x", nil, app.OnDueOptions{}) }), []string{`"x"`, "no function", here}},
		"OnDueTx without a function": {invoke(func(timers *app.Timers) { timers.OnDueTx("x", nil, app.OnDueOptions{}) }), []string{`"x"`, "no function", here}},
		"OnDue with the prefix of a module": {
			fx.Options(provide(app.Handler{Prefix: "x", Handle: handle}), invoke(func(timers *app.Timers) { timers.OnDue("x", handle, app.OnDueOptions{}) })),
			[]string{`"x"`, "already", here},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			err := fx.New(h.module(), test.program).Start(t.Context())
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Start: %v, want %q", err, want)
				}
			}
		})
	}
}
