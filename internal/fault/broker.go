package fault

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/outbox"
)

// NewPublisher returns a publisher whose Publish and PublishTo fail as "publish".
// It is an [outbox.MultiPublisher] if the one given is.
func NewPublisher(inner message.Publisher, decide Decide) message.Publisher {
	p := &publisher{inner, decide}
	if many, ok := inner.(outbox.MultiPublisher); ok {
		return &multiPublisher{p, many}
	}
	return p
}

type publisher struct {
	message.Publisher
	decide Decide
}

func (p *publisher) Publish(topic string, messages ...*message.Message) error {
	return p.decide.call("publish", func() error { return p.Publisher.Publish(topic, messages...) })
}

type multiPublisher struct {
	*publisher
	many outbox.MultiPublisher
}

func (p *multiPublisher) PublishTo(topics []string, messages []*message.Message) error {
	return p.decide.call("publish", func() error { return p.many.PublishTo(topics, messages) })
}

// A Subscriber is a subscriber whose Subscribe fails as "subscribe", and the
// answers to its messages as "ack" and "nack". Nobody is told that an answer
// failed: one that fails before it takes effect is lost, and the message comes
// again as if it had been handed back; one that fails after it took effect has
// arrived.
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

// answer passes on what the copy is answered.
func (s *Subscriber) answer(m, c *message.Message) {
	select {
	case <-c.Acked():
		if s.Decide.kind("ack") != Before {
			m.Ack()
			return
		}
	case <-c.Nacked():
		s.Decide.kind("nack")
	}
	m.Nack()
}
