package poller

import (
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Phase is the current activity of a [Poller].
type Phase uint8

// These are the phases of a poller.
const (
	Stopped  Phase = iota // it does not run
	Polling               // it reads the store, or fires
	Awaiting              // it waits until timers may fire, see [Options.Await]
	Sleeping              // nothing is due, or nothing may fire
)

// A Status describes the state of a [Poller].
type Status struct {
	Phase   Phase
	For     time.Duration // how long it has been in this phase
	Overdue time.Duration // how long ago the next poll should have begun; zero if that is ahead
	Err     error         // of the last poll; nil if it worked
	Clock   bool          // the clock jumped forward: nothing fires until a reference agrees
	Jumps   int64         // how often the clock jumped
	Behind  bool          // the clock is behind a reference by more than a minute: timers fire late
	Full    bool          // the outbox is full: nothing fires
	// Cleared is when all due timers had fired that no rate or pause held back; zero: not
	// yet.
	Cleared time.Time
	Paused  timer.Pauses // pauses that the last poll read
}

// Late returns how late the poller is: how long the current poll has taken so far, or how
// long ago the next one should have begun.
func (s Status) Late() time.Duration {
	if s.Phase == Polling {
		return s.For
	}
	return s.Overdue
}

// A status keeps the data of a [Status].
type status struct {
	mu    sync.Mutex
	last  Status
	since time.Duration // when the phase began
	until time.Duration // when the next poll begins at the latest
}

// enter records the beginning of a phase.
func (s *status) enter(p Phase, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Phase, s.since = p, now
}

// sleep records the result of a poll, and that the next one begins within limit.
func (s *status) sleep(now, limit time.Duration, polled Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	polled.Phase, polled.Jumps = Sleeping, s.last.Jumps
	if polled.Clock && !s.last.Clock {
		polled.Jumps++
	}
	s.last = polled
	s.since, s.until = now, now+max(0, limit)
}

// Status returns the state of the poller. It never waits.
func (p *Poller) Status() Status {
	now := p.opt.Elapsed()
	p.status.mu.Lock()
	defer p.status.mu.Unlock()
	s := p.status.last
	s.For = now - p.status.since
	if s.Phase == Sleeping {
		s.Overdue = max(0, now-p.status.until)
	}
	return s
}
