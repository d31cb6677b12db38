package kafka

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// closeWait is how long messages in flight can be acked after Close. After that they are
// delivered to other subscriptions.
const closeWait = 30 * time.Second

// subscriber subscribes for a role. See [broker.Broker] for its contract. After Close,
// messages in flight can still be acked for 30 seconds, while [Broker.Run] runs.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// A subscription is one call of Subscribe.
type subscription struct {
	*subscriber
	group  *group
	window *inflight.Window
}

// Subscribe delivers the messages of a topic that the role has not acked yet. The topic
// may hold the wildcard. Subscribe returns an error only after Close, or if the topic is
// invalid.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	if !s.Join() {
		return nil, ErrClosed
	}
	ctx, stop := s.Until(ctx)
	sub := &subscription{
		subscriber: s,
		window:     inflight.New(ctx, inflight.Options{}),
		group:      s.broker.join(groupID{s.role, topic}),
	}
	go func() {
		defer s.broker.term.Done()
		defer stop()
		sub.run(ctx)
	}()
	return sub.window.Messages(), nil
}

// run fills the window until ctx is done. Then it closes the window, and waits for
// messages in flight.
func (s *subscription) run(ctx context.Context) {
	defer context.AfterFunc(ctx, s.group.wake)()
	for d := s.group.take(ctx); d != nil; d = s.group.take(ctx) {
		s.window.Add(d, d.count+1)
	}
	s.window.Close()
	s.Left()
	s.group.leave(s.Drain(s.window, closeWait, 0, nil))
}
