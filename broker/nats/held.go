package nats

import (
	"context"
	"time"
)

// hold notes a message as being in flight. It returns false if it is already:
// the server lost patience while it waited here.
func (s *subscription) hold(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.held[d.position]; ok {
		return false
	}
	d.consumer = s.since
	s.held[d.position] = d
	s.bytes += d.bytes
	s.count++
	return true
}

// mark notes whether the handler has a message.
func (s *subscription) mark(d *delivery, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.sent = sent
}

// drop notes that a message is no longer in flight.
func (s *subscription) drop(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, d.position)
	s.bytes -= d.bytes
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// full reports whether the messages in flight are as large as they may be.
func (s *subscription) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes >= maxHeld
}

// all returns the messages in flight.
func (s *subscription) all() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]delivery, 0, len(s.held))
	for _, d := range s.held {
		all = append(all, *d)
	}
	return all
}

// taken returns how many messages were taken so far.
func (s *subscription) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// renew notes which consumer messages come from now on. It reports whether that
// is another one than before.
func (s *subscription) renew(created time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := s.since.Equal(created)
	s.since = created
	return !same
}

// current reports whether the consumer that a message came from is still there.
// An ack would go to the one which has taken its place, and there it could mean
// another message.
func (s *subscription) current(d *delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.consumer.Equal(s.since)
}

// told notes an ack that could not be sent: its message comes again.
func (s *subscription) told(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent++
	s.why = err
}

// tell logs how many acks could not be sent since it was last called.
func (s *subscription) tell() {
	s.mu.Lock()
	n, why := s.unsent, s.why
	s.unsent, s.why = 0, nil
	s.mu.Unlock()
	if n > 0 {
		s.broker.log.WarnContext(context.Background(), "acks not sent, messages will come again",
			"consumer", s.durable, "messages", n, "error", why)
	}
}
