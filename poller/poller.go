// Package poller turns time into events. It sleeps until the earliest timer is due, marks the
// due timers as Reached and appends their events to the outbox, both in one transaction, and
// sleeps again. It knows no broker and no database, only the ports of package timer.
package poller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Poller]. The zero value is ready to use. Reached, Polled and Full must not
// block.
type Options struct {
	Interval time.Duration // longest sleep between polls; default 5s
	Batch    int           // timers per transaction; default 1000
	// Precision is the shortest time from a transaction that fires timers to the next one, unless
	// more timers are due than it has; default none.
	Precision time.Duration
	Reached   func(events []timer.DueTimeReached) // called after commits that fire timers or let them expire
	Trace     Trace                               // makes the spans of firing; default none
	Polled    func(took time.Duration, err error) // called after each poll, with its time without Await
	// Await waits until timers may fire, and returns false if the context ended first. It is
	// called once for each poll; by default timers may always fire.
	Await func(context.Context) bool
	Full  func() bool // whether the outbox is full: then nothing fires; default never
	// Paused returns the pauses that people have set, at a time. It is called at most twice a
	// second, and after [Poller.Refresh]; by default there are none.
	Paused func(context.Context, time.Time) (timer.Pauses, error)
	// Reference returns the time of another clock, or errors.ErrUnsupported if it can never
	// do so; default none.
	Reference func(context.Context) (time.Time, error)
	// Elapsed returns the time since any fixed moment, by a clock that is never set; default
	// the monotonic readings of the Clock.
	Elapsed func() time.Duration
	Quotas  Quotas // how many timers of a tenant may fire; default all
}

// A Trace is called in the transaction with the events that fire, and may set the Trace of
// each event. The function that it returns is called after the commit, if there is one.
// Neither may block.
type Trace func(ctx context.Context, events []timer.DueTimeReached) (fired func())

// Quotas bound how many timers of a tenant fire. The others wait: they stay
// Scheduled.
type Quotas interface {
	// Allowance returns how many timers tenants may fire at a time, or nil if nothing bounds
	// them.
	Allowance(now time.Time) timer.Allowance

	// Fired is called after each commit with the events that fired, within the last
	// Allowance. It returns when a tenant that may have more timers due may fire again: now
	// if one still may, the zero time if there is none.
	Fired(now time.Time, events []timer.DueTimeReached) (again time.Time)
}

// A Poller fires timers. Make one with [New].
type Poller struct {
	store   timer.Store
	clock   timer.Clock
	log     *slog.Logger
	opt     Options
	gate    gate
	guard   guard
	outbox  backpressure
	skipped skippedTenants
	status  status
	waited  time.Duration // how long Await took in the current poll
	cleared time.Time     // see [Status]
	booked  expectedDue

	pauses     timer.Pauses  // that were read last
	pausesRead time.Duration // when they were read
	refresh    atomic.Bool   // they are read in the next poll
}

// New returns a Poller. It starts nothing: call [Poller.Run].
func New(store timer.Store, clock timer.Clock, log *slog.Logger, opt Options) *Poller {
	option.Require("poller.New", "store", store, "clock", clock, "*slog.Logger", log)
	opt.Interval = option.Positive(opt.Interval, 5*time.Second)
	opt.Batch = option.Positive(opt.Batch, 1000)
	opt.Reached = option.Func(opt.Reached, func([]timer.DueTimeReached) {})
	opt.Trace = option.Func(opt.Trace, func(context.Context, []timer.DueTimeReached) func() { return func() {} })
	opt.Polled = option.Func(opt.Polled, func(time.Duration, error) {})
	opt.Await = option.Func(opt.Await, func(ctx context.Context) bool { return ctx.Err() == nil })
	opt.Full = option.Func(opt.Full, func() bool { return false })
	opt.Paused = option.Func(opt.Paused, func(context.Context, time.Time) (timer.Pauses, error) { return nil, nil })
	if opt.Elapsed == nil {
		began := clock.Now()
		opt.Elapsed = func() time.Duration { return clock.Now().Sub(began) }
	}
	p := &Poller{
		store: store, clock: clock, log: log, opt: opt,
		gate:    gate{wake: make(chan struct{}, 1)},
		guard:   guard{log: log, reference: opt.Reference, elapsed: opt.Elapsed},
		outbox:  backpressure{log: log, full: opt.Full},
		skipped: skippedTenants{until: make(map[timer.TenantID]time.Duration)},
		booked:  expectedDue{keep: min(opt.Interval, bookedTime), times: make(map[int64]time.Time)},
	}
	p.refresh.Store(true)
	return p
}

// Run fires timers until ctx is done, then finishes the open transaction within a second, and
// returns nil. It returns only errors that wrap [timer.ErrFatal]. Other errors are logged,
// and the poll is repeated.
func (p *Poller) Run(ctx context.Context) error {
	defer p.status.enter(Stopped, 0)
	for retry := minRetry; ; {
		began := p.now()
		p.status.enter(Polling, p.opt.Elapsed())
		next, err := p.poll(ctx, began)
		p.opt.Polled(p.now().Sub(began)-p.waited, err)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil:
			p.log.ErrorContext(ctx, "poll failed, will retry", "error", err, "retry_in", retry)
			next = wake{at: began.Add(retry)}
			retry = min(2*retry, p.opt.Interval)
		default:
			retry = minRetry
		}
		if err == nil {
			err = p.skipped.why(p.opt.Elapsed())
		}
		limit := next.at.Sub(began)
		p.status.sleep(p.opt.Elapsed(), limit, Status{Err: err, Clock: p.guard.doubts(), Behind: p.guard.behind, Full: !p.outbox.since.IsZero(), Paused: p.pauses, Cleared: p.cleared})
		if !p.gate.sleep(ctx, p.clock, next.earliest, next.at, limit) {
			return nil
		}
	}
}

// A wake says when to poll again.
type wake struct {
	at       time.Time
	earliest time.Time // lower bound of at, even if timers are scheduled meanwhile; zero: none
}

// poll fires the due timers, and returns when to poll again: at the earliest due time, at
// most Interval from now. While nothing is due it only reads, so an idle poller never takes
// the write lock.
func (p *Poller) poll(ctx context.Context, now time.Time) (wake, error) {
	p.waited = 0
	p.gate.open()
	if wait := p.guard.wait(ctx, now); wait > 0 {
		return wake{at: now.Add(wait)}, nil
	}
	if wait := p.outbox.wait(ctx, now); wait > 0 {
		return wake{at: now.Add(wait)}, nil
	}
	due, err := p.next(ctx, time.Time{}, p.booked.next(now, now.Add(p.opt.Interval)))
	if err != nil {
		return wake{}, err
	}
	if !p.await(ctx) {
		return wake{}, ctx.Err()
	}
	if err := p.readPauses(ctx); err != nil {
		return wake{}, err
	}
	now = p.now()
	if p.pauses.Of("", now).Paused() {
		p.cleared = now
		again := p.pausedUntil(now)
		return wake{at: again, earliest: again}, nil
	}
	if due.After(now) {
		return wake{at: due}, nil
	}
	done, err := p.fire(ctx, "")
	switch {
	case errors.Is(err, timer.ErrFatal) || ctx.Err() != nil:
		return wake{}, err
	case err != nil:
		return wake{at: now}, p.fireApart(ctx, err)
	case done.again.After(done.now) && done.fired < p.opt.Batch: // all that may fire have fired
		p.cleared = done.now
		return p.limited(ctx, done, done.now.Add(min(contended, p.opt.Interval)))
	case done.fired == 0 && done.paused:
		p.cleared = done.now
		done.again = p.pausedUntil(done.now)
		return p.limited(ctx, done, done.again)
	case done.fired == 0:
		return wake{at: now.Add(min(contended, p.opt.Interval))}, nil
	case done.fired < p.opt.Batch:
		next := done.now.Add(p.opt.Precision)
		return wake{at: next, earliest: next}, nil
	}
	return wake{at: now}, nil
}

// await waits until timers may fire.
func (p *Poller) await(ctx context.Context) bool {
	began := p.opt.Elapsed()
	p.status.enter(Awaiting, began)
	ok := p.opt.Await(ctx)
	ended := p.opt.Elapsed()
	p.status.enter(Polling, ended)
	p.waited = ended - began
	return ok
}

// limited returns when to poll again while a tenant is over its rate or paused: when it may
// fire again, or when the next timer is due. That timer may belong to the same tenant, so the
// poller waits for minDelay at least.
func (p *Poller) limited(ctx context.Context, done fireResult, latest time.Time) (wake, error) {
	at, err := p.next(ctx, done.now, latest)
	if done.again.Before(at) {
		at = done.again
	}
	earliest := p.now().Add(minDelay)
	if at.Before(earliest) {
		at = earliest
	}
	return wake{at, earliest}, err
}

// next returns the earliest due time after one, at most latest.
func (p *Poller) next(ctx context.Context, after, latest time.Time) (time.Time, error) {
	due, err := p.store.NextDue(ctx, after)
	if due.IsZero() || due.After(latest) {
		due = latest
	}
	return due, err
}

const (
	minRetry  = 100 * time.Millisecond // first pause after a failed poll
	contended = 100 * time.Millisecond // pause when other instances or limits hold all due timers
	minDelay  = 10 * time.Millisecond  // shortest pause while a tenant is over its rate or paused
	txTimeout = 30 * time.Second       // longest transaction
	txGrace   = time.Second            // longest transaction after the end of Run's context
)

// A fireResult is the result of a transaction that fires timers.
type fireResult struct {
	now    time.Time // time of the transaction
	fired  int       // timers
	again  time.Time // when a tenant that is over its rate may fire again; zero if no tenant is
	paused bool      // a tenant has timers due and is paused
}

// fire fires timers that are due now, of one tenant if it is named, at most one batch. It
// marks the timers and appends their events in one transaction, so either both happen or
// neither. The transaction outlives ctx by a second.
func (p *Poller) fire(ctx context.Context, only timer.TenantID) (fireResult, error) {
	ctx, cancel := pause.Outlive(ctx, txTimeout, txGrace)
	defer cancel()

	d := fireResult{now: p.now()}
	now := d.now
	var events []timer.DueTimeReached
	var traced func()
	if p.guard.jumped(now) { // the clock jumped since NextDue: the next poll waits
		return fireResult{}, nil
	}
	allow := p.allow(now, only, &d.paused)
	err := p.store.Update(ctx, func(tx timer.Tx) error {
		entries, err := tx.Reach(ctx, now, p.opt.Batch, allow)
		if err != nil {
			return err
		}
		events = make([]timer.DueTimeReached, len(entries))
		for i, entry := range entries {
			events[i] = entry.Event()
		}
		traced = p.opt.Trace(ctx, events)
		return tx.Emit(ctx, events...)
	})
	if err != nil {
		return fireResult{}, err
	}
	traced()
	if len(events) > 0 {
		p.booked.fired(events)
		p.opt.Reached(events)
	}
	if p.log.Enabled(ctx, slog.LevelDebug) {
		for i := range events {
			e := &events[i]
			p.log.DebugContext(timer.WithTrace(ctx, e.Trace), "timer fired", "state", e.State(), "tenant_id", e.TenantID, "service_call_id", e.ServiceCallID, "correlation_id", e.CorrelationID,
				"due_at", e.DueAt, "lateness", e.Lateness())
		}
	}
	d.fired = len(events)
	if p.opt.Quotas != nil {
		d.again = p.opt.Quotas.Fired(now, events)
	}
	return d, nil
}

// Sooner announces, after its commit, that a timer was scheduled with this due time. It wakes
// the poller if that is earlier than the planned wake-up. It never blocks.
func (p *Poller) Sooner(due time.Time) { p.gate.sooner(due) }

// now is the clock, rounded down: a timer is never early.
func (p *Poller) now() time.Time { return timer.RoundDown(p.clock.Now()) }
