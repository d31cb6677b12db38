package poller

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A gate is where the poller sleeps. From open to the end of sleep it remembers the earliest
// due time that was announced. So the poller does not sleep through a command that is
// committed while it reads the store.
type gate struct {
	mu    sync.Mutex
	until time.Time     // when the poller plans to wake; zero while it does not sleep
	first time.Time     // earliest due time announced since open; zero if none
	ended bool          // the sleep is over, whatever was announced
	wake  chan struct{} // signals that first is before until, or that the sleep is over; holds one
}

// open forgets the announced due time: a poll that begins now reads it from the store.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.first, g.until, g.ended = time.Time{}, time.Time{}, false
	select {
	case <-g.wake:
	default:
	}
}

// sooner announces a due time.
func (g *gate) sooner(due time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.first.IsZero() && !due.Before(g.first) {
		return
	}
	g.first = due
	if due.Before(g.until) {
		select {
		case g.wake <- struct{}{}:
		default:
		}
	}
}

// end ends the sleep, or the next one, at once.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// sleep waits until the time given, or until the earliest announced due time if that is
// sooner. It waits at least until earliest, and never longer than limit, because the clock
// may be set back at any moment. It returns false if ctx ended.
func (g *gate) sleep(ctx context.Context, clock timer.Clock, earliest, until time.Time, limit time.Duration) bool {
	last := time.NewTimer(limit)
	defer last.Stop()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		t.Reset(g.aim(earliest, until).Sub(clock.Now()))
		select {
		case <-ctx.Done():
			return false
		case <-last.C:
			return ctx.Err() == nil
		case <-t.C:
			return ctx.Err() == nil
		case <-g.wake:
		}
	}
}

// aim records when the poller plans to wake, and returns it.
func (g *gate) aim(earliest, until time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.first.IsZero() && g.first.Before(until) {
		until = g.first
	}
	if until.Before(earliest) {
		until = earliest
	}
	if g.ended {
		until = time.Time{}
	}
	g.until = until
	return until
}

const (
	bookedInterval = 10 * time.Millisecond // between polls for timers that may be committed now
	bookedTime     = 5 * time.Second       // how long after a due time, at most the interval; and how long a transaction is expected to be open
)

// expectedDue are due times of timers that a host has scheduled in a transaction of its own. The
// poller is not notified of the commit, and the transaction may be rolled back. So it polls
// often, from the due time on, until the timer has fired or a polling interval is over.
type expectedDue struct {
	keep time.Duration // how long after a timer should have fired

	mu      sync.Mutex
	times   map[int64]time.Time // when a timer with the due time, in Unix milliseconds, fires: at once if that is over
	sweepAt int                 // number of times at which times that are over are deleted, if no poll does it
}

// minBooked is the number of times from which on a sweep pays.
const minBooked = 1024

// Booked announces that a timer with a due time may be committed at any moment. A timer that
// is due later than an interval after the commit need not be announced, because the next poll
// finds it. The transaction may be open for [bookedTime]. Booked never blocks.
func (p *Poller) Booked(due time.Time) {
	now := p.clock.Now()
	if due.After(now.Add(bookedTime + p.opt.Interval)) {
		return
	}
	p.booked.add(now, due)
	p.gate.sooner(due)
}

// add adds a due time.
func (b *expectedDue) add(now, due time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	due = timer.RoundUp(due)
	fires := due
	if fires.Before(now) {
		fires = now
	}
	b.times[due.UnixMilli()] = fires
	if len(b.times) < max(minBooked, b.sweepAt) {
		return
	}
	b.sweep(now)
	b.sweepAt = 2 * len(b.times)
}

// sweep deletes times that are over. The lock must be held.
func (b *expectedDue) sweep(now time.Time) {
	maps.DeleteFunc(b.times, func(_ int64, fires time.Time) bool { return now.Sub(fires) > b.keep })
}

// next returns when to poll, at most latest.
func (b *expectedDue) next(now, latest time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	soon := now.Add(bookedInterval)
	for _, fires := range b.times {
		if fires.Before(soon) {
			fires = soon
		}
		if fires.Before(latest) {
			latest = fires
		}
	}
	return latest
}

// fired records that timers have fired.
func (b *expectedDue) fired(events []timer.DueTimeReached) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range events {
		delete(b.times, events[i].DueAt.UnixMilli())
	}
}
