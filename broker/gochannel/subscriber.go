package gochannel

import (
	"context"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// subscriber subscribes for a role. See [broker.Broker] for its contract.
type subscriber struct {
	broker  *Broker
	role    string
	closing chan struct{}
	open    sync.WaitGroup // subscriptions whose channel is not closed yet

	mu     sync.Mutex
	closed bool
	groups map[string]*group // by topic; this subscriber keeps them
}

// SubscribeInitialize has messages of a topic kept for the role from now on, as
// Subscribe does.
func (s *subscriber) SubscribeInitialize(topic string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.group(topic)
	return err
}

// Subscribe delivers what was published to a topic since the role first
// subscribed, and is not acked.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, err := s.group(topic)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	m := &member{ctx: ctx, out: make(chan *message.Message), gone: s.closing}
	g.add(m)
	s.open.Add(1)
	if !s.broker.start(func() {
		defer s.open.Done()
		select {
		case <-ctx.Done():
		case <-s.closing:
		case <-s.broker.ended:
		}
		stop()
		g.remove(m)
	}) {
		s.open.Done()
		stop()
		g.remove(m)
		return nil, ErrClosed
	}
	return m.out, nil
}

// group returns the group of the role for a topic, and keeps it until Close.
func (s *subscriber) group(topic string) (*group, error) {
	if s.closed {
		return nil, ErrClosed
	}
	if g, ok := s.groups[topic]; ok {
		return g, nil
	}
	g, err := s.broker.join(groupKey{s.role, topic})
	if err != nil {
		return nil, err
	}
	if s.groups == nil {
		s.groups = make(map[string]*group)
	}
	s.groups[topic] = g
	return g, nil
}

// Close ends all subscriptions and waits until their channels are closed. What
// is in flight goes to other subscribers of the role; without any it is
// forgotten.
func (s *subscriber) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	close(s.closing)
	s.open.Wait()
	for _, g := range s.groups {
		s.broker.leave(g)
	}
	return nil
}
