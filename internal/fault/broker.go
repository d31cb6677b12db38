package fault

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// A Publisher is a publisher that fails as "publish", each message by itself.
type Publisher struct {
	broker.Publisher
	Decide Decide
}

// Publish publishes the messages that do not fail before they are published.
func (p *Publisher) Publish(ctx context.Context, messages ...broker.Message) []error {
	results := make([]error, len(messages))
	var sent []broker.Message
	var of []int // index in messages of each message in sent
	for i, m := range messages {
		if kind := p.Decide.kind("publish"); kind != None {
			results[i] = ErrInjected
			if kind == Before {
				continue
			}
		}
		sent, of = append(sent, m), append(of, i)
	}
	if len(sent) == 0 {
		return results
	}
	for i, err := range p.Publisher.Publish(ctx, sent...) {
		if err != nil {
			results[of[i]] = err
		}
	}
	return results
}

// A Subscriber is a subscriber whose Subscribe fails as "subscribe". The acks and nacks of
// its messages fail as "ack" and "nack", and handlers do not learn of that. An ack that
// fails before it takes effect is lost, and the message is redelivered as after a nack. An
// ack that fails after it took effect has arrived.
type Subscriber struct {
	message.Subscriber
	Decide Decide
}

// Subscribe delivers copies of the messages.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	messages, err := get(s.Decide, "subscribe", func() (<-chan *message.Message, error) {
		return s.Subscriber.Subscribe(ctx, topic)
	})
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer close(out)
		for m := range messages {
			c := m.Copy()
			c.SetContext(m.Context())
			select {
			case out <- c:
				go s.answer(m, c)
			case <-ctx.Done():
				m.Nack()
			}
		}
	}()
	return out, nil
}

// answer forwards the ack or nack of the copy.
func (s *Subscriber) answer(m, c *message.Message) {
	select {
	case <-c.Acked():
		if s.Decide.kind("ack") != Before {
			m.Ack()
			return
		}
	case <-c.Nacked():
		s.Decide.kind("nack")
		m.Metadata = c.Metadata // the delay that the handler asks for
	}
	m.Nack()
}
