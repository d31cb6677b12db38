package timertest

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
)

// A linkSubscriber is that of a broker which may be down, see [broker.Broker].
type linkSubscriber struct {
	message.Subscriber
	link    *link
	once    sync.Once
	closing chan struct{}
	open    sync.WaitGroup // subscriptions that may still send
}

// Close ends all subscriptions and waits until their channels are closed.
func (s *linkSubscriber) Close() error {
	s.once.Do(func() { close(s.closing) })
	err := s.Subscriber.Close()
	s.open.Wait()
	return err
}

// Subscribe delivers copies of the messages, none while the broker is down.
func (s *linkSubscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	in, err := s.Subscriber.Subscribe(ctx, topic)
	if err != nil {
		return nil, err
	}
	out := make(chan *message.Message)
	s.open.Go(func() {
		defer close(out)
		for m := range in {
			c := m.Copy()
			c.SetContext(m.Context())
			if !s.deliver(ctx, out, c) {
				m.Nack()
				continue
			}
			s.link.open.Store(m.Metadata.Get(broker.MetaPosition), true)
			s.link.work.Go(func() { s.answer(m, c) })
		}
	})
	return out, nil
}

// deliver waits until the broker is there and the message is taken. It returns false
// if the intake ends first.
func (s *linkSubscriber) deliver(ctx context.Context, out chan<- *message.Message, m *message.Message) bool {
	for ctx.Err() == nil {
		up, down := s.link.outage.changes()
		select {
		case <-up:
		case <-ctx.Done():
			return false
		case <-s.closing:
			return false
		}
		select {
		case out <- m:
			return true
		case <-down:
		case <-ctx.Done():
		case <-s.closing:
			return false
		}
	}
	return false
}

// answer passes on the answer to the copy of a message. An ack that the broker does
// not get is like none: the message comes again.
func (s *linkSubscriber) answer(m, c *message.Message) {
	select {
	case <-c.Acked():
		if s.link.away() == nil {
			m.Ack()
			s.link.open.Delete(m.Metadata.Get(broker.MetaPosition))
			return
		}
	case <-c.Nacked():
		m.Metadata = c.Metadata // the delay that the handler asks for
	case <-s.link.over:
		return
	}
	m.Nack()
}

// unackedCommands are the positions of commands that were delivered to the service and are not acked.
type unackedCommands struct{ sync.Map }

func (c *unackedCommands) count() (n int) {
	c.Range(func(_, _ any) bool {
		n++
		return true
	})
	return n
}
