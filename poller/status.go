package poller

import (
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Phase is what a [Poller] does.
type Phase uint8

// Phases of a poller.
const (
	Stopped  Phase = iota // it does not run
	Polling               // it reads the store, or fires
	Awaiting              // it waits until timers may fire, see [Options.Await]
	Sleeping              // nothing is due, or nothing may fire
)

// A Status says how a [Poller] is.
type Status struct {
	Phase   Phase
	For     time.Duration // how long it has been in this phase
	Overdue time.Duration // how long ago the next poll should have begun; zero if that is ahead
	Err     error         // of the last poll; nil if it worked
	Clock   bool          // the clock jumped forward: nothing fires until a reference agrees
	Jumps   int64         // how often it did
	Full    bool          // the outbox is full: nothing fires
	Cleared time.Time     // when all had fired that was due and that no rate and no pause held back; zero: none has so far
	Paused  timer.Pauses  // whose firing people have paused, as the last poll found
}

// Late returns how long the poller has been late: a poll takes so long so far, or
// should have begun so long ago.
func (s Status) Late() time.Duration {
	if s.Phase == Polling {
		return s.For
	}
	return s.Overdue
}

// A status keeps what a [Status] is made of.
type status struct {
	mu    sync.Mutex
	last  Status
	since time.Duration // when the phase began
	until time.Duration // when the next poll begins at the latest
}

// enter notes that a phase begins.
func (s *status) enter(p Phase, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Phase, s.since = p, now
}

// sleep notes what a poll found, and that the next one begins within a time.
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

// Status returns how the poller is. It never waits.
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
