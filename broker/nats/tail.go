package nats

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// tailBuffer is how many messages a reader of a tail may be behind. More are
// dropped, which is logged.
const tailBuffer = 8192

// tail subscribes to what is published from now on. See [broker.Broker] for its
// contract.
type tail struct {
	*inflight.Subscriptions
	broker *Broker
}

// Subscribe returns when the server knows of the subscription, so that it
// returns an error while there is no connection. After a reconnect it goes on;
// what was published meanwhile is missed.
func (t *tail) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	if !t.Join() {
		return nil, ErrClosed
	}
	started := false
	defer func() {
		if !started {
			t.Left()
			t.broker.term.Done()
		}
	}()
	s, err := t.broker.current()
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	e, err := listen(ctx, s, topic)
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	started = true
	out := make(chan *message.Message)
	go func() {
		defer t.broker.term.Done()
		defer t.Left()
		defer close(out)
		t.run(ctx, topic, e, out)
	}()
	return out, nil
}

// An ear is a subscription on one connection.
type ear struct {
	in     chan *natsgo.Msg
	closed chan natsgo.Status // gets a value when the connection is closed for good
	end    func()
}

// listen subscribes, and waits until the server knows.
func listen(ctx context.Context, s *session, topic string) (*ear, error) {
	in := make(chan *natsgo.Msg, tailBuffer)
	sub, err := s.conn.ChanSubscribe(topic, in)
	if err != nil {
		return nil, err
	}
	closed := s.conn.StatusChanged(natsgo.CLOSED)
	e := &ear{in: in, closed: closed, end: func() {
		s.conn.RemoveStatusListener(closed)
		_ = sub.Unsubscribe() // it fails only if the connection is closed
	}}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := s.conn.FlushWithContext(ctx); err != nil {
		e.end()
		return nil, err
	}
	return e, nil
}

// run delivers messages until ctx is done, the tail is closed or the broker is
// over. If the connection is closed for good, it listens on the next one.
func (t *tail) run(ctx context.Context, topic string, e *ear, out chan<- *message.Message) {
	ctx, stop := t.Until(ctx)
	defer stop()
	for {
		e.forward(ctx, out)
		e.end()
		for again := true; again; {
			s := t.broker.usable(ctx.Done())
			if s == nil {
				return
			}
			var err error
			if e, err = listen(ctx, s, topic); err == nil {
				again = false
			} else if !pause.For(ctx, minBackoff) {
				return
			}
		}
	}
}

// forward delivers messages until ctx is done or the connection is closed.
func (e *ear) forward(ctx context.Context, out chan<- *message.Message) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.closed:
			return
		case m := <-e.in:
			msg := unmarshal(m.Subject, m.Header, m.Data)
			msg.SetContext(ctx)
			select {
			case <-ctx.Done():
				return
			case out <- msg:
			}
		}
	}
}
