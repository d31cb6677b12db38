package nats

import (
	"context"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
)

// tailBuffer is how many messages a reader of a tail may be behind. More are
// dropped, which is logged.
const tailBuffer = 8192

// tail subscribes to what is published from now on. See [broker.Broker] for its
// contract.
type tail struct {
	broker  *Broker
	once    sync.Once
	closing chan struct{}
	open    sync.WaitGroup
}

// Subscribe returns when the server knows of the subscription, so that it
// returns an error while there is no connection. After a reconnect it goes on;
// what was published meanwhile is missed.
func (t *tail) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	if !t.broker.join(t.closing, &t.open) {
		return nil, ErrClosed
	}
	started := false
	defer func() {
		if !started {
			t.open.Done()
			t.broker.subs.Done()
		}
	}()
	s, err := t.broker.current()
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	in, end, err := listen(ctx, s, topic)
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	started = true
	out := make(chan *message.Message)
	go func() {
		defer t.broker.subs.Done()
		defer t.open.Done()
		defer close(out)
		t.run(ctx, topic, in, end, out)
	}()
	return out, nil
}

// Close ends all subscriptions and waits until their channels are closed.
func (t *tail) Close() error {
	t.once.Do(func() { close(t.closing) })
	t.open.Wait()
	return nil
}

// listen subscribes, and waits until the server knows.
func listen(ctx context.Context, s *session, topic string) (in chan *natsgo.Msg, end func(), err error) {
	in = make(chan *natsgo.Msg, tailBuffer)
	sub, err := s.conn.ChanSubscribe(topic, in)
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = sub.Unsubscribe() } // it fails only if the connection is closed
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := s.conn.FlushWithContext(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return in, end, nil
}

// run delivers messages until ctx is done, the tail is closed or the broker is
// over. If the connection is closed for good, it listens on the next one.
func (t *tail) run(ctx context.Context, topic string, in <-chan *natsgo.Msg, end func(), out chan<- *message.Message) {
	ctx, stop := t.broker.until(ctx, t.closing)
	defer stop()
	for {
		t.forward(ctx, in, out)
		end()
		if ctx.Err() != nil {
			return
		}
		for again := true; again; {
			s := t.broker.usable(ctx.Done())
			if s == nil {
				return
			}
			var err error
			in, end, err = listen(ctx, s, topic)
			if again = err != nil; again && !pause(ctx, minBackoff) {
				return
			}
		}
	}
}

// forward delivers messages until ctx is done or the subscription ends.
func (t *tail) forward(ctx context.Context, in <-chan *natsgo.Msg, out chan<- *message.Message) {
	for {
		var m *natsgo.Msg
		select {
		case <-ctx.Done():
			return
		case m = <-in:
			if m == nil {
				return
			}
		}
		msg := unmarshal(m.Subject, m.Header, m.Data)
		msg.SetContext(ctx)
		select {
		case <-ctx.Done():
			return
		case out <- msg:
		}
	}
}
