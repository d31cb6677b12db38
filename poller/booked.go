package poller

import (
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

const (
	bookedInterval = 10 * time.Millisecond // between polls for timers that may be committed now
	bookedTime     = 5 * time.Second       // how long after a due time, at most the interval
)

// booked are due times of timers that a host has scheduled in a transaction of its own. The
// poller is not notified of the commit, and the transaction may be rolled back. So it polls
// often, from the due time on, until the timer has fired or a polling interval is over.
type booked struct {
	mu    sync.Mutex
	times []time.Time // in order
}

// Booked announces that a timer with a due time may be committed at any moment. A timer that
// is due after the next poll need not be announced, because that poll finds it. Booked never
// blocks.
func (p *Poller) Booked(due time.Time) {
	if due.After(p.clock.Now().Add(p.opt.Interval)) {
		return
	}
	p.booked.mu.Lock()
	at, known := slices.BinarySearchFunc(p.booked.times, due, time.Time.Compare)
	if !known {
		p.booked.times = slices.Insert(p.booked.times, at, due)
	}
	p.booked.mu.Unlock()
	p.gate.sooner(due)
}

// next returns when to poll, at most latest.
func (b *booked) next(now, latest time.Time, keep time.Duration) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.times = slices.DeleteFunc(b.times, func(due time.Time) bool { return now.Sub(due) > keep })
	if len(b.times) > 0 && b.times[0].Before(latest) {
		latest = b.times[0]
		if soon := now.Add(bookedInterval); latest.Before(soon) {
			latest = soon
		}
	}
	return latest
}

// fired records that timers have fired.
func (b *booked) fired(events []timer.DueTimeReached) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.times) > 0 {
		b.times = slices.DeleteFunc(b.times, func(due time.Time) bool {
			return slices.ContainsFunc(events, func(e timer.DueTimeReached) bool { return e.DueAt.Equal(due) })
		})
	}
}
