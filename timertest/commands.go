package timertest

import (
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/timer"
)

// Client returns a client that publishes to [Service.Broker].
func (s *Service) Client() *client.Client {
	return client.New(broker.NewWatermillPublisher(s.user.Publisher()), s.user.Routing(), client.Options{})
}

// Schedule asks for timers by a message each, and returns when the broker has these.
// The test fails if a timer is invalid, or while the broker is down.
func (s *Service) Schedule(timers ...client.Timer) {
	s.t.Helper()
	for _, t := range timers {
		if _, err := s.Client().Schedule(s.t.Context(), t); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Cancel cancels timers, as Schedule schedules them.
func (s *Service) Cancel(keys ...timer.Key) {
	s.t.Helper()
	for _, key := range keys {
		if _, err := s.Client().Cancel(s.t.Context(), key); err != nil {
			s.t.Fatal(err)
		}
	}
}
