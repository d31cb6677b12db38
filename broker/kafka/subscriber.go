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

// Subscribe delivers the messages of a topic that the role has not acked yet. The topic
// may hold the wildcard. Subscribe returns an error only after Close, or if the topic is
// invalid.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	window, err := s.Open(ctx, inflight.Options{})
	if err != nil {
		return nil, err
	}
	g := s.broker.join(groupID{s.role, topic})
	window.Run(func(ctx context.Context) { g.fill(ctx, window) })
	return window.Messages(), nil
}

// fill fills the window of a subscription until ctx is done. Then it closes the window, and
// waits for messages in flight.
func (g *group) fill(ctx context.Context, window *inflight.Window) {
	defer context.AfterFunc(ctx, g.wake)()
	for d := g.take(ctx); d != nil; d = g.take(ctx) {
		window.Add(d, d.count+1)
	}
	window.Close()
	g.leave(window.Drain(closeWait, 0, nil))
}
