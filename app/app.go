// Package app assembles the parts: handlers, poller, forwarder and retention,
// around a store and a broker. [Module] does it for fx, [New] without.
//
//	broker ─► handlers ─► store ─► poller ─► outbox ─► forwarder ─► broker
//	           Timers ──────┘                             └──────────► OnDue
//
// [Timers] are for the program that the app runs in: it schedules in its own
// transactions, and may handle events itself. Then there need not be a broker.
package app

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/singleflight"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune an [App]. The zero value is ready to use.
type Options struct {
	Role            string                      // name of the instances that share the commands; default "timer-service"
	PollingInterval time.Duration               // longest sleep between polls; default 5s
	BatchSize       int                         // timers per transaction; default 1000
	Precision       time.Duration               // shortest time between two transactions of commands, or of timers that fire, while there is traffic; default none
	Retention       time.Duration               // how long finished timers are kept; default 7 days
	Horizon         time.Duration               // how far ahead a timer may be due; default 10 years
	MaxClockAhead   time.Duration               // how far ahead of the clock the timestampMs of a command may be; default 24 hours
	DrainTimeout    time.Duration               // how long a stop waits for messages in flight and for the outbox, together; default 10s
	CatchUpTimeout  time.Duration               // longest time that firing waits, once the broker is there, for the commands stored there; default 10s
	Clock           timer.Clock                 // default time.Now
	TestClock       *TestClock                  // takes the place of Clock and Elapsed: time stands still until a test moves it; default none
	Elapsed         func() time.Duration        // since any fixed time, by a clock that is never set; a Clock that runs ahead of it has jumped; default the monotonic clock
	Counters        *Counters                   // counts commands, events and failures; default none
	Hooks           []Hooks                     // are called when something happens
	Tracing         Tracing                     // makes spans of commands and events; default none
	Quotas          *quota.Limiter              // limits of tenants; default none
	Inbox           handlers.InboxLimits        // limits of waiting messages; MaxWait is at most three quarters of Retention
	DeadLetters     handlers.DeadLetterLimits   // how many bytes of dead letters are published
	IgnoreOthers    bool                        // acknowledge messages of a type that is no command, since teams share the commands topic; default: they are dead letters
	Middleware      []message.HandlerMiddleware // of the router that commands pass, outside of ours
	Takeover        bool                        // own the commands at the start, whichever database owns them
	AskToRecover    bool                        // end with an error if the database was lost or is older than the broker knows; default: recover it from the broker before anything fires
	StartPaused     bool                        // begin with firing of all paused, until it is resumed, on a database where nobody has paused or resumed it; default: timers fire
	RunBroker       bool                        // [App.Run] runs the broker, too: it starts it first and stops it last; default: the host program does
	BrokerName      string                      // name of the broker in logs and errors, such as a URL without credentials; default "the broker"
}

// Defaults of [Options].
const (
	defaultDrainTimeout    = 10 * time.Second
	defaultPollingInterval = 5 * time.Second
	defaultHorizon         = 10 * 365 * 24 * time.Hour
	defaultMaxClockAhead   = 24 * time.Hour
)

// partTimeout is how much longer than DrainTimeout the parts may take to end, if they have to
// give up a publish or a statement that hangs.
const partTimeout = outbox.StopTimeout + 500*time.Millisecond

// StopTimeout returns the longest time that [App.Run] takes to return after its
// context has ended: DrainTimeout and two seconds, and with RunBroker another one.
func (o Options) StopTimeout() time.Duration {
	limit := o.withDefaults().DrainTimeout + partTimeout
	if o.RunBroker {
		limit += brokerStopTimeout
	}
	return limit
}

// An App is the assembled service. Make one with [New]; it runs once.
type App struct {
	store     Store
	broker    broker.Broker // noBroker if there is none
	handlers  *handlers.Handlers
	poller    *poller.Poller
	forwarder *outbox.Forwarder
	handling  []outbox.Handler // of OnDue; events go to the broker if there is none
	from      []string         // who registered each of them
	mistakes  []error          // of handlers that can't work
	retention *store.Retention
	owner     *owner
	recovery  *recovery
	numbers   *numberWriter
	marks     *markPublisher
	timers    *Timers
	log       *slog.Logger
	opt       Options
	hooks     allHooks
	started   atomic.Bool
	running   chan struct{}
	asked     singleflight.Group // shares the answers of Checks
}

// New assembles an App. It starts nothing and touches no network: call
// [App.Run]. The app closes neither the store nor the broker, which must be
// running while the app is (see [Options].RunBroker). If the broker is nil, commands come
// only from [App.Timers], and [Timers.OnDue] must be called. The error names topics of the
// broker that are not valid.
func New(s Store, b broker.Broker, log *slog.Logger, opt Options) (*App, error) {
	if err := opt.missing(s, b, log); err != nil {
		return nil, err
	}
	if b == nil {
		b = noBroker{}
	}
	if err := b.Routing().Validate(); err != nil {
		return nil, err
	}
	opt = opt.withDefaults()
	a := &App{
		store: s, broker: b, log: log,
		opt: opt, running: make(chan struct{}),
	}
	if opt.TestClock != nil {
		opt.TestClock.app = a
	}
	a.hooks = append(allHooks{opt.Counters.hooks()}, opt.Hooks...)
	a.forwarder = a.newForwarder()
	behind := &catchUp{
		broker: b, role: opt.Role, timeout: opt.CatchUpTimeout, pause: opt.PollingInterval, log: log,
		store: func() int64 { return a.handlers.Failures() },
	}
	a.poller = a.newPoller(behind)
	batch := store.NewBatch(timedStore{s, a.hooks.committed}, s.Inbox(), opt.Precision)
	a.timers = &Timers{Reader: s.Timers(), app: a, commands: batch, unbatched: store.Alone{Batch: batch}}
	var receipts handlers.Receipts
	if b.Routing().Receipts != "" {
		receipts = batch.Receipts
	}
	var place func(topic, position string) (log string, number int64, ok bool)
	if kept, _ := b.History(); kept != nil {
		place = kept.Place
	}
	a.handlers = handlers.New(batch, s.Inbox(), b.Routing(),
		b.Subscriber(opt.Role), b.Publisher(), opt.Clock, log, handlers.Options{
			Name:         opt.Role,
			Horizon:      opt.Horizon,
			MaxAhead:     opt.MaxClockAhead,
			DrainTimeout: opt.DrainTimeout,
			Quotas:       opt.Quotas,
			Waiting:      opt.Inbox,
			DeadLetters:  opt.DeadLetters,
			DeadLettered: opt.Counters.deadLettered,
			Place:        place,
			Timers:       s.Timers(),
			Unbatched:    store.Alone{Batch: batch},
			Receipts:     receipts,
			ClockBehind:  a.clockBehind,
			IgnoreOthers: opt.IgnoreOthers,
			Middleware:   opt.Middleware,
			StoreWorks:   func(ctx context.Context) error { _, err := s.NextDue(ctx, opt.Clock.Now()); return err },
			Scheduled:    a.poller.Sooner,
			Watch:        a.hooks.watch,
			Trace:        opt.Tracing.Handle,
			Handled:      a.handled,
		})
	a.recovery = newRecovery(s, b, a.handlers, log, opt)
	a.owner = newOwner(s, b, a.recovery, log, opt)
	a.numbers = &numberWriter{recovery: a.recovery, log: log, settled: -1}
	a.marks = &markPublisher{s.Operator(), b, log, make(chan struct{}, 1)}
	behind.readAll = a.recovery.readAll
	opt.Counters.limits.Store(opt.Quotas)
	a.retention = store.NewRetention(s.Operator().Purge, opt.Clock, log, store.RetentionOptions{Keep: opt.Retention, Reference: reference(s, b)})
	return a, nil
}

// missing returns an error that names a required argument that is nil.
func (o Options) missing(s Store, b broker.Broker, log *slog.Logger) error {
	err := option.Missing("app.New", "store", s, "*slog.Logger", log)
	if b != nil { // it is none, if it is no pointer
		err = cmp.Or(err, option.Missing("app.New", "broker (or none, by an untyped nil)", b))
	}
	if o.Clock != nil {
		err = cmp.Or(err, option.Missing("app.Options", "Clock", o.Clock))
	}
	for _, m := range o.Middleware {
		err = cmp.Or(err, option.Missing("app.Options.Middleware", "function", m))
	}
	return err
}

func (o Options) withDefaults() Options {
	o.Role = cmp.Or(o.Role, "timer-service")
	o.DrainTimeout = option.Positive(o.DrainTimeout, defaultDrainTimeout)
	o.Retention = option.Positive(o.Retention, store.DefaultKeep)
	o.Inbox.MaxWait = min(option.Positive(o.Inbox.MaxWait, handlers.DefaultMaxWait), o.Retention/4*3)
	o.CatchUpTimeout = option.Positive(o.CatchUpTimeout, defaultCatchUpTimeout)
	o.PollingInterval = option.Positive(o.PollingInterval, defaultPollingInterval)
	o.Horizon = option.Positive(o.Horizon, defaultHorizon)
	o.MaxClockAhead = option.Positive(o.MaxClockAhead, defaultMaxClockAhead)
	if c := o.TestClock; c != nil {
		o.Clock, o.Elapsed = c, func() time.Duration { return c.Now().Sub(c.began) }
		o.Precision = 0
	}
	o.Clock = cmp.Or[timer.Clock](o.Clock, timer.ClockFunc(time.Now))
	if began := time.Now(); o.Elapsed == nil {
		o.Elapsed = func() time.Duration { return time.Since(began) } // whatever the Clock returns
	}
	o.Counters = cmp.Or(o.Counters, new(Counters))
	o.BrokerName = cmp.Or(o.BrokerName, "the broker")
	o.Tracing = o.Tracing.withDefaults()
	return o
}

// handled counts a delivery, and wakes the forwarder for its receipt.
func (a *App) handled(r handlers.Result) {
	a.numbers.activity.Add(1)
	a.opt.Counters.handled(r)
	if a.broker.Routing().Receipts != "" {
		a.forwarder.Appended(0)
	}
}

// Running is closed when commands are being taken, or will be as soon as the broker
// is there.
func (a *App) Running() <-chan struct{} { return a.running }

// NextEvent returns when this instance will publish or handle the first event of its outbox:
// later than now if all have failed, or are wanted later; the zero time if there is none.
func (a *App) NextEvent(ctx context.Context) (time.Time, error) { return a.forwarder.Next(ctx) }
