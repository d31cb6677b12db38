package timertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/store/postgres"
	"github.com/event-service-agent/timer-service/timer"
)

// A Postgres is the timer service on a PostgreSQL database, with a clock that stands still
// until the test moves it by [Postgres.Advance]: a bubble of testing/synctest does not wait for
// a server. Make it with [StartPostgres]. All methods
// except Now are for the goroutine of the test.
type Postgres struct {
	t      testing.TB
	app    *app.App
	store  *postgres.Store
	role   string
	broker broker.Broker // nil if there is none
	ended  chan struct{} // closed when the app has ended
	err    error         // of the app; valid once ended is closed

	mu  sync.Mutex
	now time.Time
}

// PostgresOptions tune [StartPostgres]. The zero value is ready to use.
type PostgresOptions struct {
	App         app.Options    // of the service; its Clock and Elapsed are those of the test
	Broker      broker.Broker  // which runs already; nil: handlers of OnDue have all events
	BeforeStart func(*app.App) // registers handlers, or hands Timers to the code under test; may be nil
	Now         time.Time      // the time of the clock at first; default the time of the call, cut to seconds
	Log         *slog.Logger   // default: warnings and errors go to the test
}

// settleLimit is how much real time [Postgres.Advance] waits for one step.
const settleLimit = 30 * time.Second

// StartPostgres starts the service on the database of a store, which it migrates, and returns
// when commands are taken. It stops with the end of the test; the store is closed by the test. No
// other instance may use the database, since that would have another time.
func StartPostgres(t testing.TB, s *postgres.Store, opt PostgresOptions) *Postgres {
	t.Helper()
	if err := option.Missing("timertest.StartPostgres", "store", s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &Postgres{t: t, store: s, broker: opt.Broker, role: cmp.Or(opt.App.Role, defaultRole), ended: make(chan struct{}), now: opt.Now}
	if p.now.IsZero() {
		p.now = time.Now().Truncate(time.Second)
	}
	log := cmp.Or(opt.Log, logTo(t))
	began := p.now
	opt.App.Clock, opt.App.Elapsed = p, func() time.Duration { return p.Now().Sub(began) }
	opt.App.Role = p.role
	err := postgres.Migrate(ctx, s.DB())
	if err == nil {
		p.app, err = app.New(clockedStore{s, p}, opt.Broker, log, opt.App)
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
func (p *Postgres) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// App returns the app that runs.
func (p *Postgres) App() *app.App { return p.app }

// Advance moves the clock on, from one time at which something is due to the next, and returns
// when all of it has happened: commands at the broker are applied, due timers have fired, and their
// events are published, or handled. Timers that a handler schedules fire in their turn, and a handler
// that fails gets its event again when its delay is over. The test fails if a step takes half a minute
// of real time, such as while firing is paused.
func (p *Postgres) Advance(d time.Duration) {
	p.t.Helper()
	for end := p.Now().Add(d); ; {
		next := p.settle()
		at := p.Now()
		if !at.Before(end) {
			return
		}
		if next.IsZero() || next.After(end) {
			next = end
		}
		p.mu.Lock()
		p.now = next
		p.mu.Unlock()
	}
}

// settle waits until nothing is left to do at the time of the clock, and returns when something is
// to be done next; the zero time if that is never.
func (p *Postgres) settle() (next time.Time) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), settleLimit)
	defer cancel()
	left := "commands at the broker"
	if p.broker != nil {
		if err := p.broker.CatchUp(ctx, p.role); err != nil {
			p.t.Fatalf("%s are left: %v", left, err)
		}
	}
	err := pause.Until(ctx, func() (done bool, err error) {
		if isClosed(p.ended) {
			return false, errors.Join(errors.New("the timer service has ended"), p.err)
		}
		left, next, err = p.left(ctx)
		p.app.Timers().Wake()
		return left == "", err
	})
	if err != nil {
		p.t.Fatalf("at %v: %v; left to do: %s%s", p.Now().UTC(), err, left, reasons(p.app))
	}
	return next
}

// left names the work that is left now, "" if there is none, and returns when there is work next.
func (p *Postgres) left(ctx context.Context) (left string, next time.Time, err error) {
	now := p.Now()
	overdue, err := p.store.Timers().Overdue(ctx, "", now.Add(time.Millisecond))
	if err != nil || overdue.Timers > 0 {
		return fmt.Sprintf("%d timers that are due", overdue.Timers), next, err
	}
	var waiting, again int
	var retry *time.Time
	err = p.store.DB().QueryRowContext(ctx, sqlLeft, now).Scan(&waiting, &again, &retry)
	if err != nil || waiting+again > 0 {
		return fmt.Sprintf("%d events in the outbox", waiting+again), next, err
	}
	if next, err = p.store.NextDue(ctx, now); err == nil && retry != nil && (next.IsZero() || retry.Before(next)) {
		next = *retry
	}
	return "", next, err
}

// sqlLeft counts events to be sent, and events to be sent again now, and finds when the next is.
const sqlLeft = `
SELECT (SELECT count(*) FROM timer_outbox),
       (SELECT count(*) FROM timer_outbox_deferred WHERE shard >= 0 AND retry_at <= $1),
       (SELECT min(retry_at) FROM timer_outbox_deferred WHERE shard >= 0)`

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
