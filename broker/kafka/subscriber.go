package kafka

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/envelope"
)

// closeWait is how long messages in flight can be acked after Close. Then others
// get them.
const closeWait = 30 * time.Second

// subscriber subscribes for a role. See [broker.Broker] for its contract. After
// Close messages in flight can still be acked for 30 seconds, while [Broker.Run]
// runs.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// A subscription is one call of Subscribe.
type subscription struct {
	broker  *Broker
	closing <-chan struct{} // closed with the subscriber
	group   *group
	window  *inflight.Window
	more    chan struct{} // holds one: there may be deliveries to take
}

// Subscribe delivers what the role has not acked yet, of a topic that may hold
// the wildcard. It returns an error only after Close, or if the topic can't be
// one.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return s.SubscribeOffers(ctx, topic, nil)
}

// SubscribeOffers subscribes as Subscribe does, and offers each message to take
// first unless that is nil. See [broker.Offerer].
func (s *subscriber) SubscribeOffers(
	ctx context.Context, topic string, take func(envelope.Offer) bool,
) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	if !s.Join() {
		return nil, ErrClosed
	}
	ctx, stop := s.Until(ctx)
	sub := &subscription{
		broker:  s.broker,
		closing: s.Closing(),
		window:  inflight.New(ctx, inflight.Options{Take: take}),
		more:    make(chan struct{}, 1),
	}
	s.broker.enter(groupID{s.role, topic}, sub)
	go func() {
		defer s.broker.term.Done()
		defer stop()
		sub.run(ctx, s.Left)
	}()
	return sub.window.Messages(), nil
}

// run fills the window until ctx is done. Then it closes the window, calls left,
// and waits for what is in flight.
func (s *subscription) run(ctx context.Context, left func()) {
	for s.feed(ctx) {
	}
	s.group.leave(s)
	s.window.Close()
	left()

	stop := make(chan struct{})
	settled := make(chan struct{})
	go func() {
		defer close(stop)
		s.patience(settled)
	}()
	s.window.Wait(stop)
	close(settled)
	<-stop
	s.group.release(s)
}

// feed takes a few deliveries into the window. It returns false if ctx is done.
func (s *subscription) feed(ctx context.Context) bool {
	taken := s.group.take(ctx, s)
	for _, d := range taken { // after the end of ctx the window returns them
		s.window.Add(d, int(d.times.Load())+1)
	}
	return len(taken) > 0
}

// patience waits until nobody should wait for acks any more, or until settled is
// closed.
func (s *subscription) patience(settled <-chan struct{}) {
	select {
	case <-settled:
		return
	case <-s.broker.term.Over():
		return
	case <-s.closing:
	}
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-settled:
	case <-s.broker.term.Over():
	case <-t.C:
	}
}

var _ broker.Offerer = (*subscriber)(nil)
