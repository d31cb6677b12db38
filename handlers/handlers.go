// Package handlers handles commands: every command that a broker delivers passes one
// Watermill router and its middleware to a handler, which applies it to the store and returns
// after the commit. Then the router acks it.
//
//	broker ─► router: begin, Options.Middleware, CorrelationID, receive (decode, trace, count),
//	           ▲      poison queue, refuse (invalid, quota), retry, circuit breaker, recoverer
//	           │      ─► ScheduleTimer(s), RescheduleTimers, CancelTimer(s) ─► group commit
//	inbox ─────┘
//
// Thousands of messages are in flight at once, in no order: the version of a command decides
// its effect.
//
// # Errors
//
// A message that is invalid, or whose commands the database refuses, becomes a dead letter of
// its tenant before the ack. Any other error may be temporary: the message is tried again a
// few times, while the circuit breaker makes all others wait. Then it is put into the inbox, a
// table of the store, as the broker delivered it, and acked. A second handler of the router
// handles it again after a growing delay.
//
// A message that exceeds the quota of its tenant is put into the inbox too, until the quota
// allows it, or becomes a dead letter. So nothing waits at the broker for long, and no message
// that waits delays other messages. A message that waits longer than [InboxLimits] allow becomes a
// dead letter. A message that the inbox can't take is nacked.
package handlers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/quota"
	"github.com/event-service-agent/timer-service/timer"
)

// A Store is the part of a [timer.Store] that the handlers need. It should let concurrent
// calls share a commit.
type Store interface {
	Schedule(ctx context.Context, now time.Time, commands ...timer.ScheduleTimer) ([]timer.Result, error)
	Cancel(ctx context.Context, now time.Time, commands ...timer.CancelTimer) ([]timer.Result, error)
	PutInbox(ctx context.Context, now time.Time, messages ...timer.InboxMessage) error
}

// A Routing names the topics.
type Routing interface {
	// Subscription is the topic of the commands of all tenants.
	Subscription() string
	// TenantOf returns the tenant in the name of a command's topic, and false if there is
	// none.
	TenantOf(topic string) (timer.TenantID, bool)
	// DeadLettersOf is the topic for dead letters of a tenant.
	DeadLettersOf(tenant timer.TenantID) string
}

// Options tune [Handlers]. The zero value is ready to use.
type Options struct {
	Name         string        // name of the router's handler, in logs; default "timer-service"
	Horizon      time.Duration // how far ahead a timer may be due; default 10 years
	MaxAhead     time.Duration // how far ahead of the clock a timestampMs may be; default 24 hours
	DrainTimeout time.Duration // how long messages in flight may take after a stop; default 10s
	// ClockBehind reports whether the clock is behind another one. Then a command that is too
	// far in the future is not refused but comes again. It may ask a server; default: never.
	ClockBehind func(context.Context) bool
	Quotas      *quota.Limiter   // limits of tenants; default nil: no limits
	Waiting     InboxLimits      // of messages in the inbox
	DeadLetters DeadLetterLimits // of published dead letters
	// Place returns the log of a message and its number there, by its topic and position, and
	// false if the broker keeps no log. By default no message is in a log.
	Place func(topic, position string) (log string, number int64, ok bool)
	// Timers counts timers, with Quotas, and finds the timers that a CancelTimers or RescheduleTimers selects.
	Timers timer.Reader
	// StoreWorks asks the store something before a failed message is put into the inbox:
	// while the store fails, the message waits here. By default it is put there at once.
	StoreWorks func(context.Context) error
	// Unbatched is the store for the last try of a message, so that others can't make it
	// fail; default the store of New.
	Unbatched Store
	// IgnoreOthers acknowledges messages of a type that is not a command, since teams share
	// the topic. By default they are invalid.
	IgnoreOthers bool
	Middleware   []message.HandlerMiddleware // of the host; it sees every message
	Scheduled    func(due time.Time)         // called after the commit of timers, with the earliest due time; must not block
	// Watch is called once a delivery. It returns a function that is called with the outcome
	// of each of its commands, or nil. Neither must block.
	Watch    func() func(Decision)
	Receipts Receipts // makes receipts durable; default no receipts
	Trace    Trace    // makes the span of a delivery; default none
	// Handled is called once a delivery, or once for each timer if the delivery was applied
	// to several. It must not block.
	Handled func(Result)
	// DeadLettered is called for each dead letter, with how much of it was kept, such as
	// [KeptWhole]. It must not block.
	DeadLettered func(kept string)
}

// A Result is the outcome of one delivery, for counting.
type Result struct {
	Type string // type of the message, or "other" if it is not one of ours
	// Outcome is a timer.Outcome or "invalid"; "ignored" (no command of ours, see
	// IgnoreOthers); "over_quota" or "failed" (both are handled again); or "none" (a
	// CancelTimers or RescheduleTimers that selects no timer).
	Outcome string
}

// Receipts writes the receipts of refused commands, at a time, and returns when they are
// durable. The store writes the receipts of other commands together with their effect.
type Receipts func(ctx context.Context, now time.Time, receipts ...timer.Receipt) error

// These are outcomes of a [Result] in addition to the names of a [timer.Outcome].
const (
	OutcomeInvalid   = "invalid"
	OutcomeIgnored   = "ignored"
	OutcomeOverQuota = "over_quota"
	OutcomeFailed    = "failed"
	OutcomeNone      = "none"
)

// StopTimeout is how much longer than DrainTimeout [Handlers.Run] may take
// after a stop.
const StopTimeout = 1500 * time.Millisecond

// Handlers consume commands. Make them with [New]; they run once.
type Handlers struct {
	store   Store
	inbox   *inbox
	routing Routing
	sub     message.Subscriber
	dead    *deadLetters
	clock   timer.Clock
	log     *slog.Logger
	opt     Options

	ahead   *digest.Digest         // of commands whose producers' clocks are ahead
	failed  *digest.Digest         // of deliveries that failed
	waiting *digest.Digest         // of messages that were put into the inbox
	others  digest.OnceSet[string] // types that were ignored

	selections   selections
	breaker      breaker
	failures     atomic.Int64 // how often the breaker was opened
	atWork       atomic.Int64 // running handlers
	running      chan struct{}
	idle         chan struct{}   // holds one value when the last running handler has ended
	unsubscribed chan struct{}   // closed when the subscription of the broker has ended
	fatal        chan error      // holds one error
	working      context.Context // of running handlers; ends DrainTimeout after the stop
	stopping     context.Context // ends with the stop
}

// New returns Handlers that read commands from sub and publish dead letters with pub, and put
// messages that must wait into the inbox of the store. They close none of these. They start nothing: call [Handlers.Run].
func New(
	store Store, inbox timer.Inbox, routing Routing, sub message.Subscriber, pub broker.Publisher,
	clock timer.Clock, log *slog.Logger, opt Options,
) *Handlers {
	option.Require("handlers.New", "store", store, "inbox", inbox, "subscriber", sub, "publisher", pub, "clock", clock, "*slog.Logger", log)
	opt.Name = cmp.Or(opt.Name, "timer-service")
	opt.Horizon = option.Positive(opt.Horizon, 10*365*24*time.Hour)
	opt.MaxAhead = option.Positive(opt.MaxAhead, 24*time.Hour)
	opt.DrainTimeout = option.Positive(opt.DrainTimeout, 10*time.Second)
	opt.Unbatched = cmp.Or(opt.Unbatched, store)
	opt.Scheduled = option.Func(opt.Scheduled, func(time.Time) {})
	opt.Watch = option.Func(opt.Watch, func() func(Decision) { return nil })
	opt.Handled = option.Func(opt.Handled, func(Result) {})
	opt.DeadLettered = option.Func(opt.DeadLettered, func(string) {})
	opt.Place = option.Func(opt.Place, func(string, string) (string, int64, bool) { return "", 0, false })
	opt.DeadLetters.Bytes = option.Positive(opt.DeadLetters.Bytes, 64<<20)
	opt.DeadLetters.TotalBytes = option.Positive(opt.DeadLetters.TotalBytes, 1<<30)
	if opt.Quotas != nil && opt.Timers == nil {
		panic("handlers: quotas without a reader of timers")
	}
	ahead := func(attrs ...any) {
		log.WarnContext(context.Background(), "the clock of a producer is ahead: its commands supersede later ones of others", attrs...)
	}
	refused := func(attrs ...any) { log.WarnContext(context.Background(), "messages refused", attrs...) }
	failed := func(attrs ...any) {
		log.WarnContext(context.Background(), "messages could not be handled, they come again", attrs...)
	}
	waits := func(attrs ...any) {
		log.WarnContext(context.Background(), "messages could not be handled, they wait in the inbox", attrs...)
	}
	h := &Handlers{
		store: store, routing: routing, sub: sub, clock: clock, log: log, opt: opt,
		dead: &deadLetters{
			receipts: opt.Receipts, pub: pub, routing: routing, clock: clock, log: log, refused: digest.New(refused), topics: make(map[string]*topicSlots),
			limiter: letterLimiter{limits: opt.DeadLetters, tenants: make(map[timer.TenantID]*byteBudget)}, kept: opt.DeadLettered,
		},
		ahead:        digest.New(ahead),
		failed:       digest.New(failed),
		waiting:      digest.New(waits),
		breaker:      newBreaker(),
		running:      make(chan struct{}),
		idle:         make(chan struct{}, 1),
		fatal:        make(chan error, 1),
		unsubscribed: make(chan struct{}),
		selections:   newSelections(inbox, clock),
	}
	h.inbox = newInbox(h, newInboxState(inbox, clock, opt.Waiting))
	return h
}

// Running is closed when the handlers have subscribed.
func (h *Handlers) Running() <-chan struct{} { return h.running }

// Wake has messages of the inbox looked at that are due by the clock, after that was moved.
func (h *Handlers) Wake() {
	select {
	case h.inbox.wake <- struct{}{}:
	default:
	}
}

// InboxClaims returns how often messages of the inbox were claimed, and whether some are now. Until
// they are handled the store has the end of the claim as their next time.
func (h *Handlers) InboxClaims() (n int64, busy bool) {
	return h.inbox.claims.Load(), h.inbox.busy.Load()
}

// Paused reports whether the circuit breaker is open: commands wait because the
// store fails.
func (h *Handlers) Paused() bool { return h.breaker.isOpen() }

// Failures returns how often the store has started to fail.
func (h *Handlers) Failures() int64 { return h.failures.Load() }

// Run handles commands until ctx is done. Then it accepts no more commands, lets the ones in
// flight finish for at most DrainTimeout, and returns nil at most [StopTimeout] later. It
// returns an error if it cannot subscribe, if the subscription ends by itself or does not
// end, or if the store returns a [timer.ErrFatal].
func (h *Handlers) Run(ctx context.Context) error {
	h.stopping = ctx
	defer h.ahead.Flush()
	defer h.failed.Flush()
	defer h.waiting.Flush()
	defer h.dead.refused.Flush()
	detached := context.WithoutCancel(ctx)
	working, stopWorking := context.WithCancel(detached)
	defer stopWorking()
	h.working = working

	router, err := h.router()
	if err != nil {
		return err
	}
	// The router gets a context of its own: a context that ends while the router starts would
	// make it hang (watermill v1.5.1).
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
	case <-h.unsubscribed:
		if ctx.Err() == nil {
			failed = errors.New("the subscription ended by itself")
		}
	}
	stopIntake() // ends the subscription; the router closes when its handlers are done
	defer time.AfterFunc(h.opt.DrainTimeout, stopWorking).Stop()
	last := time.NewTimer(h.opt.DrainTimeout + StopTimeout)
	defer last.Stop()
	select {
	case err := <-ended:
		failed = errors.Join(failed, err)
	case <-last.C:
		return errors.Join(failed, errors.New("stop the intake: the subscription did not end"))
	}
	select {
	case <-h.inbox.ended:
		return failed
	case <-last.C:
		return errors.Join(failed, errors.New("stop the intake: the inbox did not end"))
	}
}

// MissedDeadLetters returns the tenant most of whose dead letters were not kept as a whole, and
// how many since the start, if there were any lately.
func (h *Handlers) MissedDeadLetters() (tenant timer.TenantID, missed int64) {
	return h.dead.limiter.worst(h.clock.Now())
}
