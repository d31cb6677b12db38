package outbox

import (
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// A Status says how a [Forwarder] is.
type Status struct {
	Owns    bool          // it has a table, or a shard of one
	Waiting int           // see [Forwarder.Waiting]
	Stuck   time.Duration // how long no read or publish has come to an end; zero if none is under way
	Failing int           // rows that have failed for ten minutes or longer, in their handler or at the broker
	Failed  error         // the last error of the first of them, with the key of its timer
	Unmoved error         // why rows could not be deferred, parked or deleted, the last time within a minute; nil if they could
}

// Status returns how the forwarder is. It never waits.
func (f *Forwarder) Status() Status {
	s, _ := f.current()
	if s == nil {
		return Status{}
	}
	now := s.clock.Now()
	failing, failed := s.failing.long(now, "")
	return Status{Owns: true, Waiting: s.backlog.waiting(), Stuck: s.stuck(), Failing: failing, Failed: failed, Unmoved: s.unmoved.last(now)}
}

// Failing returns how many events of a tenant have failed for ten minutes or longer, in
// this process.
func (f *Forwarder) Failing(tenant timer.TenantID) int {
	s, _ := f.current()
	if s == nil {
		return 0
	}
	n, _ := s.failing.long(s.clock.Now(), tenant)
	return n
}

// stuck returns how long no read or publish that is under way has come to an end.
func (s *sender) stuck() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.landed
	if len(s.inFlight) == 0 {
		since = time.Time{}
	}
	for r := range s.readings {
		if since.IsZero() || r.began.Before(since) {
			since = r.began
		}
	}
	if since.IsZero() {
		return 0
	}
	return max(0, s.clock.Now().Sub(since))
}
