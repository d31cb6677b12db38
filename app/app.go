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
	Role            string                      // what instances that share the commands call themselves; default "timer-service"
	PollingInterval time.Duration               // longest sleep between polls; default 5s
	BatchSize       int                         // timers per transaction; default 1000
	Retention       time.Duration               // how long finished timers are kept; default 7 days
	Horizon         time.Duration               // how far ahead a timer may be due; default 10 years
	MaxClockAhead   time.Duration               // how far ahead of the clock the timestampMs of a command may be; default 24 hours
	DrainTimeout    time.Duration               // how long a stop waits for messages in flight and for the outbox, together; default 10s
	CatchUpTimeout  time.Duration               // how long firing waits at most, once the broker is there, for commands that wait there; default 10s
	Clock           timer.Clock                 // default time.Now
	Counters        *Counters                   // counts what happens; default none
	Hooks           Hooks                       // are called when something happens
	Quotas          *quota.Limiter              // what tenants may have; default anything
	IgnoreOthers    bool                        // acknowledge messages of a type that is no command, since teams share the commands topic; default: they are dead letters
	Middleware      []message.HandlerMiddleware // of the router that commands pass, outside of ours
	Takeover        bool                        // own the commands at the start, whichever database owns them
	BrokerName      string                      // what the broker is called in logs and errors, such as a URL without credentials; default "the broker"
	Owned           func()                      // called once, before the first command is taken: the database owns the commands; must not block
}

// defaultDrainTimeout is that of [Options].
const defaultDrainTimeout = 10 * time.Second

// defaultPollingInterval is that of [Options].
const defaultPollingInterval = 5 * time.Second

// partTimeout is what the parts may take to end beside DrainTimeout: to give up a
// publish or a statement that hangs.
const partTimeout = outbox.StopTimeout + 500*time.Millisecond

// StopTimeout returns how long [App.Run] takes at most to return after its
// context has ended: DrainTimeout and two seconds.
func (o Options) StopTimeout() time.Duration {
	if o.DrainTimeout <= 0 {
		return defaultDrainTimeout + partTimeout
	}
	return o.DrainTimeout + partTimeout
}

// An App is the assembled service. Make one with [New]; it runs once.
type App struct {
	store     Store
	handlers  *handlers.Handlers
	poller    *poller.Poller
	forwarder *outbox.Forwarder
	retention *store.Retention
	owner     *owner
	late      *latenessLog
	log       *slog.Logger
	opt       Options
	running   chan struct{}
	asked     struct{ store, broker question } // see Checks
}

// minBacklog is how many events may wait for the forwarder at least before the
// poller pauses: enough that the forwarder always has some. Events of other
// tenants wait behind them for as long as the broker takes for so many.
const minBacklog = 1000

// New assembles an App. It starts nothing and touches no network: call
// [App.Run]. The app closes neither the store nor the broker, which must be
// running while the app is. The error says what can't work together.
func New(s Store, b broker.Broker, log *slog.Logger, opt Options) (*App, error) {
	if err := b.Routing().Validate(); err != nil {
		return nil, err
	}
	if opt.Role == "" {
		opt.Role = "timer-service"
	}
	if opt.DrainTimeout <= 0 {
		opt.DrainTimeout = defaultDrainTimeout
	}
	if opt.CatchUpTimeout <= 0 {
		opt.CatchUpTimeout = defaultCatchUpTimeout
	}
	if opt.PollingInterval <= 0 {
		opt.PollingInterval = defaultPollingInterval
	}
	if opt.Clock == nil {
		opt.Clock = timer.ClockFunc(time.Now)
	}
	if opt.Counters == nil {
		opt.Counters = new(Counters)
	}
	if opt.BrokerName == "" {
		opt.BrokerName = "the broker"
	}
	if opt.Owned == nil {
		opt.Owned = func() {}
	}
	hooks := opt.Hooks.withDefaults()
	a := &App{store: s, owner: newOwner(s, b, log, opt), late: &latenessLog{log: log}, log: log, opt: opt, running: make(chan struct{})}
	a.forwarder = outbox.New(s.Outbox(), b.Publisher(), eventTopic(b.Routing()), opt.Clock, log, outbox.Options{
		Interval: opt.PollingInterval,
		Published: func(at time.Time, events []*message.Message) {
			a.late.add(opt.Counters.published(at, events))
			hooks.Published(at, events)
		},
		Parked: func(reason string) {
			opt.Counters.parked(reason)
			hooks.Parked(reason)
		},
	})
	backlog := max(minBacklog, opt.BatchSize)
	began := time.Now()
	var fireRates poller.Quotas
	if opt.Quotas != nil {
		fireRates = opt.Quotas
	}
	behind := &catchUp{
		broker: b, role: opt.Role, timeout: opt.CatchUpTimeout, pause: opt.PollingInterval, log: log,
		store: func() int64 { return a.handlers.Failures() },
	}
	a.poller = poller.New(s, opt.Clock, log, poller.Options{
		Interval:  opt.PollingInterval,
		Quotas:    fireRates,
		Batch:     opt.BatchSize,
		Reference: reference(s, b),
		Elapsed:   func() time.Duration { return time.Since(began) }, // whatever the Clock returns
		Full:      func() bool { return a.forwarder.Waiting() >= backlog },
		Await:     behind.await,
		Polled: func(took time.Duration, err error) {
			behind.polled(took, err)
			hooks.Polled(took, err)
		},
		Reached: func(events []timer.DueTimeReached) {
			a.forwarder.Appended(len(events))
			opt.Counters.reached(events)
			hooks.Reached(events)
		},
	})
	a.handlers = handlers.New(store.NewBatch(timed{s, hooks.Committed}, store.BatchOptions{}), b.Routing(),
		b.Subscriber(opt.Role), b.Publisher(), opt.Clock, log, handlers.Options{
			Name:         opt.Role,
			Horizon:      opt.Horizon,
			MaxAhead:     opt.MaxClockAhead,
			DrainTimeout: opt.DrainTimeout,
			Quotas:       opt.Quotas,
			Timers:       s,
			Unbatched:    s,
			IgnoreOthers: opt.IgnoreOthers,
			Middleware:   opt.Middleware,
			StoreWorks:   func(ctx context.Context) error { _, err := s.NextDue(ctx, time.Time{}); return err },
			Scheduled:    a.poller.Sooner,
			Handled: func(r handlers.Result) {
				opt.Counters.handled(r)
				hooks.Handled(r)
			},
		})
	a.retention = store.NewRetention(s, opt.Clock, log, store.RetentionOptions{Keep: opt.Retention, Reference: reference(s, b)})
	return a, nil
}

// Running is closed when commands are being taken, or will be as soon as the broker
// is there.
func (a *App) Running() <-chan struct{} { return a.running }

// Held reports whether the intake is stopped because the store is down.
func (a *App) Held() bool { return a.handlers.Paused() }

// Run runs all parts until ctx is done, then stops them in the order of the
// flow: the intake first, then the poller, then the forwarder when the outbox
// is empty or DrainTimeout has passed. It returns within [Options.StopTimeout],
// with an error if a part died, or did not end in time.
func (a *App) Run(ctx context.Context) error {
	if err := a.store.Prepare(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("store: %w", err)
	}
	died := make(chan struct{}, 6) // one for each part
	owner := start(ctx, died, "owner", a.owner.run)
	forwarder := start(ctx, died, "forwarder", a.owner.before(a.forwarder.Run))
	poller := start(ctx, died, "poller", a.owner.before(a.poll))
	retention := start(ctx, died, "retention", a.retention.Run)
	intake := start(ctx, died, "handlers", a.owner.before(a.handlers.Run))
	parts := []*part{intake, poller, retention, start(ctx, died, "store", a.store.Watch), owner}

	clean, running := true, a.handlers.Running()
	select {
	case <-running:
	case <-a.owner.waiting:
	case <-ctx.Done():
	case <-died:
		clean = false
	}
	if clean && ctx.Err() == nil {
		close(a.running)
		select {
		case <-ctx.Done():
		case <-died:
			clean = false
		}
	}

	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.opt.StopTimeout())
	defer cancel()
	draining, cancel := context.WithTimeout(stopping, a.opt.DrainTimeout)
	defer cancel()
	var failed error
	for _, p := range parts {
		failed = errors.Join(failed, p.stop(stopping))
	}
	if clean && a.owner.is() {
		a.drain(draining)
	}
	failed = errors.Join(failed, forwarder.stop(stopping))
	a.late.stop()
	return failed
}

// poll runs the poller, as soon as its events have somewhere to go.
func (a *App) poll(ctx context.Context) error {
	select {
	case <-a.forwarder.Ready():
	case <-ctx.Done():
		return nil
	}
	return a.poller.Run(ctx)
}

// drain waits until the outbox is empty, or ctx is done.
func (a *App) drain(ctx context.Context) {
	failpoint.Here("draining")
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
