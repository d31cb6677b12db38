package timertest

import (
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A recorder keeps all events that were published.
type recorder struct {
	mu   sync.Mutex
	all  []timer.DueTimeReached
	more chan struct{} // closed when there are more
}

// keep keeps an event, if a message is one.
func (r *recorder) keep(m *message.Message) {
	decoded, _ := envelope.Decode(m.Payload) // a body that does not decode has no payload
	e, ok := decoded.Payload.(timer.DueTimeReached)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
	close(r.more)
	r.more = make(chan struct{})
}

// since returns the events behind the first n, and a channel that is closed when there
// are more.
func (r *recorder) since(n int) ([]timer.DueTimeReached, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[n:len(r.all):len(r.all)], r.more
}

// Fired returns the events of a tenant that were published so far, or handled by [OnDue] or
// what [BeforeStart] has registered. An event that was published again, after a crash, is
// there twice, with the same id.
func (s *Service) Fired(tenant timer.TenantID) []timer.DueTimeReached {
	all, _ := s.events.since(0)
	var of []timer.DueTimeReached
	for _, e := range all {
		if e.TenantID == tenant {
			of = append(of, e)
		}
	}
	return of
}

// Events returns a channel of the events of a tenant, including events that were
// published before. It is closed when the test ends. A receive lets time pass, for
// ever if there is no event.
func (s *Service) Events(tenant timer.TenantID) <-chan timer.DueTimeReached {
	out := make(chan timer.DueTimeReached)
	done := s.t.Context().Done()
	go func() {
		defer close(out)
		for n := 0; ; {
			some, more := s.events.since(n)
			n += len(some)
			for _, e := range some {
				if e.TenantID != tenant {
					continue
				}
				select {
				case out <- e:
				case <-done:
					return
				}
			}
			select {
			case <-more:
			case <-done:
				return
			}
		}
	}()
	return out
}
