// Package app assembles the parts: handlers, poller, forwarder and retention,
// around a store and a broker. [Module] does it for fx, [New] without.
//
//	broker ─► handlers ─► store ─► poller ─► outbox ─► forwarder ─► broker
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune an [App]. The zero value is ready to use.
type Options struct {
	Role            string        // what instances that share the commands call themselves; default "timer-service"
	PollingInterval time.Duration // longest sleep between polls; default 5s
	BatchSize       int           // timers per transaction; default 1000
	Retention       time.Duration // how long what is over is kept; default 7 days
	Horizon         time.Duration // how far ahead a timer may be due; default 10 years
	DrainTimeout    time.Duration // how long a stop waits, for handlers and again for the outbox; default 10s
	Clock           timer.Clock   // default time.Now
	Counters        *Counters     // counts what happens; default none
	Quotas          *quota.Keeper // what tenants may have; the store must be a [timer.Reader]; default anything
}

// A Store is a [timer.Store] that keeps its outbox where the forwarder reaches
// it. Those of store/sqlite and store/postgres are.
type Store interface {
	timer.Store
	timer.Purger
	outbox.Table
}

// A forwarder is an [outbox.Forwarder], or an [outbox.Relay] where instances
// share the outbox.
type forwarder interface {
	Run(ctx context.Context) error
	Appended(rows int)
	Waiting() int
	Drain(ctx context.Context) error
}

// An App is the assembled service. Make one with [New]; it runs once.
type App struct {
	handlers  *handlers.Handlers
	poller    *poller.Poller
	forwarder forwarder
	led       <-chan struct{} // closed when events have a shard to go to; nil if there are no shards
	retention *store.Retention
	prepare   func(context.Context) error // nil if the store has none
	watch     func(context.Context) error // nil if the store has none
	log       *slog.Logger
	opt       Options
	running   chan struct{}
}

// minRoom is how many events may wait for the forwarder, but for those of the
// batch that comes on top: enough that it always has some. Who waits behind them
// waits for as long as the broker takes for so many.
const minRoom = 1000

// New assembles an App. It starts nothing and touches no network: call
// [App.Run]. The app closes neither the store nor the broker, which must be
// running while the app is. The error says what can't work together.
func New(s timer.Store, b broker.Broker, log *slog.Logger, opt Options) (*App, error) {
	full, ok := s.(Store)
	if !ok {
		return nil, fmt.Errorf("the store %T has no outbox: give the app one of store/sqlite or store/postgres", s)
	}
	if err := b.Routing().Validate(); err != nil {
		return nil, err
	}
	timers, ok := s.(timer.Reader)
	if !ok && opt.Quotas != nil {
		return nil, fmt.Errorf("the store %T is no timer.Reader, so nobody can count the timers of a tenant: quotas need one", s)
	}
	if opt.Role == "" {
		opt.Role = "timer-service"
	}
	if opt.DrainTimeout <= 0 {
		opt.DrainTimeout = 10 * time.Second
	}
	if opt.Clock == nil {
		opt.Clock = timer.ClockFunc(time.Now)
	}
	if opt.Counters == nil {
		opt.Counters = new(Counters)
	}
	a := &App{log: log, opt: opt, running: make(chan struct{})}
	shards, shared := s.(outbox.Shards)
	interval := opt.PollingInterval
	if shared && (interval <= 0 || interval > outbox.SharedInterval) {
		interval = outbox.SharedInterval
	}
	forward := func(table outbox.Table) *outbox.Forwarder {
		return outbox.NewForwarder(table, b.Publisher(), eventTopic(b.Routing()), opt.Clock, log, outbox.ForwarderOptions{
			Interval:  interval,
			Forwarded: opt.Counters.forwarded,
			Parked:    opt.Counters.parked,
		})
	}
	if shared {
		relay := outbox.NewRelay(shards, forward, log)
		a.forwarder, a.led = relay, relay.Led()
	} else {
		a.forwarder = forward(full)
	}
	room := max(minRoom, opt.BatchSize)
	began := time.Now()
	var fireRates poller.Quotas
	if opt.Quotas != nil {
		fireRates = opt.Quotas
	}
	a.poller = poller.New(full, opt.Clock, log, poller.Options{
		Interval:  opt.PollingInterval,
		Quotas:    fireRates,
		Batch:     opt.BatchSize,
		Reference: reference(s, b),
		Elapsed:   func() time.Duration { return time.Since(began) }, // whatever the Clock tells
		Full:      func() bool { return a.forwarder.Waiting() >= room },
		Reached: func(events []timer.DueTimeReached) {
			a.forwarder.Appended(len(events))
			opt.Counters.reached(events)
		},
	})
	a.handlers = handlers.New(store.NewBatch(full, store.BatchOptions{}), b.Routing(),
		b.Subscriber(opt.Role), b.Publisher(), opt.Clock, log, handlers.Options{
			Name:         opt.Role,
			Horizon:      opt.Horizon,
			DrainTimeout: opt.DrainTimeout,
			Quotas:       opt.Quotas,
			Timers:       timers,
			Scheduled:    a.poller.Sooner,
			Handled:      opt.Counters.handled,
		})
	a.retention = store.NewRetention(full, opt.Clock, log, store.RetentionOptions{Keep: opt.Retention, Reference: reference(s, b)})
	if p, ok := s.(interface{ Prepare(context.Context) error }); ok {
		a.prepare = p.Prepare
	}
	if w, ok := s.(interface{ Watch(context.Context) error }); ok {
		a.watch = w.Watch
	}
	return a, nil
}

// Running is closed when commands are being taken.
func (a *App) Running() <-chan struct{} { return a.running }

// Held reports whether the intake is stopped because the store is down.
func (a *App) Held() bool { return a.handlers.Held() }

// Run runs all parts until ctx is done, then stops them in the order of the
// flow: the intake first, then the poller, then the forwarder when the outbox
// is empty or DrainTimeout has passed. It returns an error if a part died; then
// the others were stopped too.
func (a *App) Run(ctx context.Context) error {
	if a.prepare != nil {
		if err := a.prepare(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	died := make(chan struct{}, 5) // room for every part
	forwarder := start(ctx, died, "forwarder", a.forwarder.Run)
	poller := start(ctx, died, "poller", a.poll)
	retention := start(ctx, died, "retention", a.retention.Run)
	intake := start(ctx, died, "handlers", a.handlers.Run)
	parts := []*part{intake, poller, retention}
	if a.watch != nil {
		parts = append(parts, start(ctx, died, "store", a.watch))
	}

	clean := true
	select {
	case <-a.handlers.Running():
		close(a.running)
		select {
		case <-ctx.Done():
		case <-died:
			clean = false
		}
	case <-ctx.Done():
	case <-died:
		clean = false
	}

	var failed error
	for _, p := range parts {
		failed = errors.Join(failed, p.stop())
	}
	if clean {
		a.drain(ctx)
	}
	return errors.Join(failed, forwarder.stop())
}

// poll runs the poller, as soon as its events have somewhere to go.
func (a *App) poll(ctx context.Context) error {
	if a.led != nil {
		select {
		case <-a.led:
		case <-ctx.Done():
			return nil
		}
	}
	return a.poller.Run(ctx)
}

// drain waits until the outbox is empty, within its limit.
func (a *App) drain(ctx context.Context) {
	failpoint.Here("draining")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opt.DrainTimeout)
	defer cancel()
	if err := a.forwarder.Drain(ctx); err != nil {
		a.log.WarnContext(ctx, "stopped with events in the outbox; the next start forwards them", "error", err)
	}
}

// eventTopic names the topic of an event by the tenant in its headers.
func eventTopic(r broker.Routing) func(*message.Message) string {
	return func(event *message.Message) string {
		return r.EventsOf(timer.TenantID(event.Metadata.Get(envelope.HeaderTenantID)))
	}
}

// reference returns the clock of the first that has one.
func reference(parts ...any) func(context.Context) (time.Time, error) {
	for _, part := range parts {
		if c, ok := part.(interface {
			Now(ctx context.Context) (time.Time, error)
		}); ok {
			return c.Now
		}
	}
	return nil
}
