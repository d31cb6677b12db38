// Package handlers is the way in: a Watermill router that takes commands from
// a broker, decodes them strictly, applies them to the store and acks each
// after its commit.
//
// # Errors
//
// A message that is invalid goes to the dead letters of its tenant, before the
// ack. Anything else that goes wrong may pass: it is tried again at once a few
// times, then left to the broker, which delivers it again after a growing
// delay, for ever. While the store is down the intake stops.
//
// A command that is over the quota of its tenant is either left to the broker
// too, which stops nobody else, or becomes a dead letter.
package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A Store is what the handlers need of a [timer.Store].
type Store interface {
	Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Outcome, error)
	Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Outcome, error)
}

// A Routing names the topics.
type Routing interface {
	// Subscription is the topic of the commands of all tenants.
	Subscription() string
	// TenantOf returns the tenant that the topic of a command names, if it does.
	TenantOf(topic string) (timer.TenantID, bool)
	// DeadLettersOf is the topic for dead letters of a tenant.
	DeadLettersOf(tenant timer.TenantID) string
}

// Options tune [Handlers]. The zero value is ready to use.
type Options struct {
	Name         string              // name of the router's handler, in logs; default "timer-service"
	Horizon      time.Duration       // how far ahead a timer may be due; default 10 years
	DrainTimeout time.Duration       // how long messages in flight may take after a stop; default 10s
	Quotas       *quota.Keeper       // what tenants may have; default nil: anything
	Timers       timer.Reader        // where timers are counted; required with Quotas
	Scheduled    func(due time.Time) // called after the commit of a timer; must not block
	Handled      func(Result)        // called once a delivery; must not block
}

// A Result is what became of one delivery, for counting.
type Result struct {
	Type    string // type of the message, if it is one of ours, else "other"
	Outcome string // a timer.Outcome, "invalid", "ignored" (not our type), "over_quota" or "failed" (both come again)
}

// Outcomes of a [Result] beside those of [timer.Outcome].
const (
	OutcomeInvalid   = "invalid"
	OutcomeIgnored   = "ignored"
	OutcomeOverQuota = "over_quota"
	OutcomeFailed    = "failed"
)

// Handlers consume commands. Make them with [New]; they run once.
type Handlers struct {
	store   Store
	routing Routing
	sub     message.Subscriber
	dead    message.Publisher
	clock   timer.Clock
	log     *slog.Logger
	opt     Options

	hold     hold
	running  chan struct{}
	fatal    chan error      // holds one
	working  context.Context // of handlers at work; ends DrainTimeout after the stop
	stopping context.Context // ends with the stop
}

// New returns Handlers that take commands from sub and publish dead letters
// with pub, which they do not close. They start nothing: call [Handlers.Run].
func New(
	store Store, routing Routing, sub message.Subscriber, pub message.Publisher,
	clock timer.Clock, log *slog.Logger, opt Options,
) *Handlers {
	if opt.Name == "" {
		opt.Name = "timer-service"
	}
	if opt.Horizon <= 0 {
		opt.Horizon = 10 * 365 * 24 * time.Hour
	}
	if opt.DrainTimeout <= 0 {
		opt.DrainTimeout = 10 * time.Second
	}
	if opt.Scheduled == nil {
		opt.Scheduled = func(time.Time) {}
	}
	if opt.Handled == nil {
		opt.Handled = func(Result) {}
	}
	h := &Handlers{
		store: store, routing: routing, sub: sub, clock: clock, log: log, opt: opt,
		dead:    &deadLetters{pub: pub, routing: routing, clock: clock},
		running: make(chan struct{}),
		fatal:   make(chan error, 1),
	}
	if opt.Quotas != nil && opt.Timers == nil {
		panic("handlers: quotas without a reader of timers")
	}
	h.hold.probe = make(chan struct{}, 1)
	return h
}

// Running is closed when the handlers have subscribed.
func (h *Handlers) Running() <-chan struct{} { return h.running }

// Held reports whether the intake is stopped because the store is down.
func (h *Handlers) Held() bool { return h.hold.down.Load() }

// Run handles commands until ctx is done; then it takes no more, lets those in
// flight finish for at most DrainTimeout, and returns nil. It returns an error
// if it cannot subscribe, if the subscription ends by itself, or if the store
// returns a [timer.ErrFatal].
func (h *Handlers) Run(ctx context.Context) error {
	h.stopping = ctx
	detached := context.WithoutCancel(ctx)
	working, stopWorking := context.WithCancel(detached)
	defer stopWorking()
	h.working = working

	router, err := h.router()
	if err != nil {
		return err
	}
	// The router gets a context of its own: one that ended while it starts
	// would hang it (watermill v1.5.1).
	intake, stopIntake := context.WithCancel(detached)
	defer stopIntake()
	ended := make(chan error, 1)
	go func() { ended <- router.Run(intake) }()

	select {
	case <-router.Running():
		close(h.running)
	case err := <-ended:
		return fmt.Errorf("start the router: %w", err)
	}

	var failed error
	select {
	case <-ctx.Done():
	case failed = <-h.fatal:
	case err := <-ended:
		if ctx.Err() != nil {
			return nil
		}
		return errors.Join(errors.New("the subscription ended by itself"), err)
	}
	stopIntake() // ends the subscription; the router closes when its handlers are done
	deadline := time.AfterFunc(h.opt.DrainTimeout, stopWorking)
	defer deadline.Stop()
	return errors.Join(failed, <-ended)
}

// router builds the Watermill router.
func (h *Handlers) router() (*message.Router, error) {
	logger := watermill.NewSlogLoggerWithLevelMapping(h.log, map[slog.Level]slog.Level{
		slog.LevelInfo: slog.LevelDebug, // a line for each start and stop of its parts
	})
	router, err := message.NewRouter(message.RouterConfig{
		CloseTimeout: h.opt.DrainTimeout + time.Second,
	}, logger)
	if err != nil {
		return nil, fmt.Errorf("build the router: %w", err)
	}
	middleware, err := h.middleware()
	if err != nil {
		return nil, err
	}
	router.AddMiddleware(middleware...)
	router.AddConsumerHandler(h.opt.Name, h.routing.Subscription(), bulk{h.sub, h}, h.apply)
	return router, nil
}
