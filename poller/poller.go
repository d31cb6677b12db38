// Package poller turns time into events. It sleeps until the earliest timer is
// due, marks what is due as Reached and appends the events to the outbox, both
// in one transaction, and sleeps again. It knows no broker and no database,
// only the ports of package timer.
package poller

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// Options tune a [Poller]. The zero value is ready to use.
type Options struct {
	Interval  time.Duration                            // longest sleep between looks at the store; default 5s
	Batch     int                                      // timers per transaction; default 1000
	Reached   func(events []timer.DueTimeReached)      // called after each commit that fired something; must not block
	Polled    func(took time.Duration, err error)      // called after each look at the store; must not block
	Reference func(context.Context) (time.Time, error) // second opinion on the time; errors.ErrUnsupported if it never has one; default none
	Elapsed   func() time.Duration                     // since any fixed moment, by a clock that nobody sets; default the monotonic readings of the Clock
}

// A Poller fires timers. Make one with [New].
type Poller struct {
	store timer.Store
	clock timer.Clock
	log   *slog.Logger
	opt   Options
	gate  gate
	guard guard
}

// New returns a Poller. It starts nothing: call [Poller.Run].
func New(store timer.Store, clock timer.Clock, log *slog.Logger, opt Options) *Poller {
	if opt.Interval <= 0 {
		opt.Interval = 5 * time.Second
	}
	if opt.Batch <= 0 {
		opt.Batch = 1000
	}
	if opt.Reached == nil {
		opt.Reached = func([]timer.DueTimeReached) {}
	}
	if opt.Polled == nil {
		opt.Polled = func(time.Duration, error) {}
	}
	if opt.Elapsed == nil {
		began := clock.Now()
		opt.Elapsed = func() time.Duration { return clock.Now().Sub(began) }
	}
	return &Poller{
		store: store, clock: clock, log: log, opt: opt,
		gate:  gate{wake: make(chan struct{}, 1)},
		guard: guard{log: log, reference: opt.Reference, elapsed: opt.Elapsed},
	}
}

// Run fires timers until ctx is done, then finishes the transaction in hand
// and returns nil. It returns an error only if that wraps [timer.ErrFatal]; any
// other is logged and the poll tried again.
func (p *Poller) Run(ctx context.Context) error {
	for retry := minRetry; ; {
		began := p.now()
		next, err := p.turn(ctx, began)
		p.opt.Polled(p.now().Sub(began), err)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, timer.ErrFatal):
			return err
		case err != nil:
			p.log.ErrorContext(ctx, "poll failed, will retry", "error", err, "retry_in", retry)
			next = began.Add(retry)
			retry = min(2*retry, p.opt.Interval)
		default:
			retry = minRetry
		}
		if !p.gate.sleep(ctx, p.clock, next, next.Sub(began)) {
			return nil
		}
	}
}

// turn fires what is due, if anything is, and returns when to look again: the
// earliest due time, at most Interval from now. While nothing is due it only
// reads, so an idle poller never takes the write lock.
func (p *Poller) turn(ctx context.Context, now time.Time) (time.Time, error) {
	p.gate.open()
	if wait := p.guard.hold(ctx, now); wait > 0 {
		return now.Add(wait), nil
	}
	due, err := p.store.NextDue(ctx)
	if err != nil {
		return time.Time{}, err
	}
	latest := now.Add(p.opt.Interval)
	if due.IsZero() || due.After(latest) {
		return latest, nil
	}
	if due.After(now) {
		return due, nil
	}
	fired, err := p.Poll(ctx)
	if err == nil && fired == 0 {
		return now.Add(min(contended, p.opt.Interval)), nil
	}
	return now, err
}

const (
	minRetry  = 100 * time.Millisecond // first pause after a failed poll
	contended = 100 * time.Millisecond // pause when another instance holds all that is due
	patience  = 30 * time.Second       // longest transaction
)

// Poll fires what is due now, at most one batch, and returns how many that
// were. The timers are marked and their events appended in one transaction, so
// either both happen or neither. The transaction is not torn apart when ctx
// ends.
func (p *Poller) Poll(ctx context.Context) (fired int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()

	now := p.now()
	var events []timer.DueTimeReached
	if p.guard.jumped(now) { // since the look at the store: the next look holds
		return 0, nil
	}
	err = p.store.Update(ctx, func(tx timer.Tx) error {
		entries, err := tx.Reach(ctx, now, p.opt.Batch)
		if err != nil {
			return err
		}
		events = make([]timer.DueTimeReached, len(entries))
		for i, entry := range entries {
			events[i] = entry.Event()
		}
		return tx.Emit(ctx, events...)
	})
	if err != nil || len(events) == 0 {
		return 0, err
	}
	p.opt.Reached(events)
	return len(events), nil
}

// Sooner tells that a timer due at the time given was scheduled, after its
// commit. It wakes the poller if that is earlier than it meant to wake, and
// never blocks.
func (p *Poller) Sooner(due time.Time) { p.gate.sooner(due) }

// now is the clock, rounded down: a timer is never early.
func (p *Poller) now() time.Time { return timer.RoundDown(p.clock.Now()) }
