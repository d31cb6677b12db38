package nats

import (
	"context"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/inflight"
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
	messages, err := t.Tail(ctx, func(ctx context.Context, again bool) (inflight.Listener, error) {
		connected := func(context.Context) (*session, error) { return t.broker.current() }
		if again {
			connected = t.broker.keeper.Await
		}
		s, err := connected(ctx)
		if err != nil {
			return nil, err
		}
		return listen(ctx, s, topic)
	})
	if err != nil {
		return nil, fmt.Errorf("tail %s: %w", topic, err)
	}
	return messages, nil
}

// A listener is a subscription on one connection.
type listener struct {
	conn   *natsgo.Conn
	sub    *natsgo.Subscription
	in     chan *natsgo.Msg
	closed chan natsgo.Status // gets a value when the connection is closed for good
}

// listen subscribes, and waits until the server knows.
func listen(ctx context.Context, s *session, topic string) (inflight.Listener, error) {
	in := make(chan *natsgo.Msg, tailBuffer)
	sub, err := s.conn.ChanSubscribe(topic, in)
	if err != nil {
		return nil, err
	}
	l := &listener{conn: s.conn, sub: sub, in: in, closed: s.conn.StatusChanged(natsgo.CLOSED)}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := s.conn.FlushWithContext(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Receive sends messages until ctx is done or the connection is closed.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.closed:
			return
		case m := <-l.in:
			if !send(unmarshal(m.Subject, m.Header, m.Data)) {
				return
			}
		}
	}
}

// Close ends the subscription.
func (l *listener) Close() {
	l.conn.RemoveStatusListener(l.closed)
	_ = l.sub.Unsubscribe() // it fails only if the connection is closed
}
