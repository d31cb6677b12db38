package timertest

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// A Postgres is the timer service on a PostgreSQL database, with a clock that stands still
// until the test moves it by [Postgres.Advance]: a bubble of testing/synctest does not wait for
// a server. Make it with [StartPostgres]. All methods
// except Now are for the goroutine of the test.
type Postgres struct {
	t     testing.TB
	app   *app.App
	clock *app.TestClock
	ended chan struct{} // closed when the app has ended
	err   error         // of the app; valid once ended is closed
}

// PostgresOptions tune [StartPostgres]. The zero value is ready to use.
type PostgresOptions struct {
	App         app.Options    // of the service; its TestClock is that of the test
	Broker      broker.Broker  // which runs already; nil: handlers of OnDue have all events
	BeforeStart func(*app.App) // registers handlers, or hands Timers to the code under test; may be nil
	Now         time.Time      // the time of the clock at first; default the time of the call, cut to seconds
	Log         *slog.Logger   // default: warnings and errors go to the test
}

// StartPostgres starts the service on the database of a store, which it migrates, and returns
// when commands are taken. It stops with the end of the test; the store is closed by the test. No
// other instance may use the database, since that would have another time.
func StartPostgres(t testing.TB, s *postgres.Store, opt PostgresOptions) *Postgres {
	t.Helper()
	if err := option.Missing("timertest.StartPostgres", "store", s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Postgres{t: t, clock: app.NewTestClock(cmp.Or(opt.Now, time.Now().Truncate(time.Second))), ended: make(chan struct{})}
	opt.App.TestClock = p.clock
	err := postgres.Migrate(ctx, s.DB())
	if err == nil {
		p.app, err = app.New(clockedStore{s, p.clock}, opt.Broker, cmp.Or(opt.Log, logTo(t)), opt.App)
	}
	if err != nil {
		cancel()
		t.Fatal("start the timer service: ", err)
	}
	if opt.BeforeStart != nil {
		opt.BeforeStart(p.app)
	}
	go func() {
		defer close(p.ended)
		p.err = p.app.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if <-p.ended; p.err != nil {
			t.Error("stop the timer service: ", p.err)
		}
	})
	select {
	case <-p.app.Running():
	case <-p.ended:
		t.Fatal("the timer service has ended: ", p.err)
	}
	return p
}

// Now returns the time of the service. It is a [timer.Clock], for the code under test.
func (p *Postgres) Now() time.Time { return p.clock.Now() }

// App returns the app that runs.
func (p *Postgres) App() *app.App { return p.app }

// Advance moves the clock on by [app.TestClock.Advance]. Timers that a handler schedules fire in their
// turn, and a handler that fails gets its event again when its delay is over. The test fails if a
// step takes half a minute of real time.
func (p *Postgres) Advance(d time.Duration) {
	p.t.Helper()
	ctx, cancel := until(p.t.Context(), p.ended, errKilled)
	defer cancel()
	_, err := p.clock.Advance(ctx, p.Now().Add(d))
	switch {
	case isClosed(p.ended):
		p.t.Fatal("the timer service has ended: ", p.err)
	case err != nil:
		p.t.Fatalf("%v%s", err, reasons(p.app))
	}
}

// clockedStore is a store whose instances go by the clock of a test.
type clockedStore struct {
	*postgres.Store
	clock timer.Clock
}

func (s clockedStore) Shared() store.Shared { return clockedShared{s.Store.Shared(), s.clock} }

type clockedShared struct {
	store.Shared
	clock timer.Clock
}

func (s clockedShared) Now(context.Context) (time.Time, error) { return s.clock.Now(), nil }
