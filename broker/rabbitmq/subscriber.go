package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/envelope"
)

// subscriber subscribes for a role. See [broker.Broker] for its contract. After
// Close messages in flight can still be acked for [ackWait], while [Broker.Run]
// runs.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// SubscribeInitialize makes the queue of the role, so that it gets what is
// published from now on.
func (s *subscriber) SubscribeInitialize(topic string) error {
	if err := checkName(topic); err != nil {
		return err
	}
	return s.broker.makeRole(context.Background(), s.broker.queueOf(s.role, topic))
}

// Subscribe delivers what the role has not acked yet. While there is a
// connection it returns when the role has its queue, so that it gets what is
// published from then on. It returns an error only after Close, or if the topic
// can't be one.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return s.SubscribeOffers(ctx, topic, nil)
}

// SubscribeOffers subscribes as Subscribe does, and offers each message to take
// first unless that is nil. See [broker.Offerer].
func (s *subscriber) SubscribeOffers(
	ctx context.Context, topic string, take func(envelope.Offer) bool,
) (<-chan *message.Message, error) {
	if err := checkName(topic); err != nil {
		return nil, err
	}
	sub := &subscription{
		broker:  s.broker,
		topic:   topic,
		queue:   s.broker.queueOf(s.role, topic),
		closing: s.Closing(),
	}
	if !s.Join() {
		return nil, ErrClosed
	}
	s.broker.attached(sub, errNotYet)
	_ = s.broker.makeRole(ctx, sub.queue) // what fails now is tried again
	intake, end := s.Until(ctx)
	sub.window = inflight.New(intake, inflight.Options{Take: take, Messages: prefetch, Bytes: maxInFlight})
	go func() {
		defer s.broker.term.Done()
		defer end()
		sub.run(intake, s.Left)
	}()
	return sub.window.Messages(), nil
}

// makeRole makes a queue, or checks that it is there.
func (b *Broker) makeRole(ctx context.Context, q queue) error {
	if b.opt.Client {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	conn, err := b.main.current()
	if err != nil {
		return err
	}
	return b.makeQueue(ctx, conn, q)
}

// errNotYet is why a new subscription gets nothing.
var errNotYet = errors.New("it has not begun")

// attached notes why a subscription gets nothing, nil if it does. It reports
// whether that is another reason than before.
func (b *Broker) attached(sub *subscription, why error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	news := text(b.open[sub]) != text(why)
	b.open[sub] = why
	return news
}

// left notes that a subscription wants nothing any more.
func (b *Broker) left(sub *subscription) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, sub)
}

var (
	_ broker.Offerer               = (*subscriber)(nil)
	_ message.SubscribeInitializer = (*subscriber)(nil)
	_ fmt.Stringer                 = server{}
)
