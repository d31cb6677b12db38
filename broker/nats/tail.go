package nats

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// tailBuffer is how many messages a reader of a tail may be behind. More are
// dropped, which is logged.
const tailBuffer = 8192

// A listener is a subscription on one connection.
type listener struct {
	conn   *natsgo.Conn
	sub    *natsgo.Subscription
	in     chan *natsgo.Msg
	closed chan natsgo.Status // gets a value when the connection is closed for good
}

// tail subscribes, and waits until the server knows. It needs no permission but that to
// subscribe: people and tenants have no other.
func (b *Broker) tail(ctx context.Context, topic string) (inflight.Listener, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	s, err := b.current()
	if err != nil {
		return nil, err
	}
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
