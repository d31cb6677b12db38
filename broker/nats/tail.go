package nats

import (
	"context"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// tailBuffer is how many messages a reader of a tail may be behind. Further messages are
// dropped, and that is logged.
const tailBuffer = 8192

// A listener is a subscription on one connection.
type listener struct {
	sub       *natsgo.Subscription
	in        chan *natsgo.Msg
	permitted context.Context // ends when the subscription is denied, or the connection lost
	stop      func()          // ends permitted, too
}

// tail subscribes, and waits until the server has the subscription. It needs only the
// permission to subscribe, since people and tenants have no other.
func (b *Broker) tail(ctx context.Context, topic string) (inflight.Listener, error) {
	if err := checkFilter(topic); err != nil {
		return nil, err
	}
	s, err := b.current()
	if err != nil {
		return nil, err
	}
	denial := deniedSubscribe + topic + `"`
	in := make(chan *natsgo.Msg, tailBuffer)
	sub, err := s.conn.ChanSubscribe(topic, in)
	if err != nil {
		return nil, err
	}
	l := &listener{sub: sub, in: in}
	l.permitted, l.stop = b.undenied(s, denial)
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err = s.conn.FlushWithContext(ctx)
	// The library reports a denial later than it has read the answer to the flush.
	if last := s.conn.LastError(); err == nil && last != nil && strings.Contains(last.Error(), denial) {
		err = denied(last)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Receive sends messages until ctx is done, the subscription is denied, or the connection
// is lost.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	ctx, stop := pause.WhileBoth(ctx, l.permitted)
	defer stop()
	inflight.Each(ctx, l.in, func(m *natsgo.Msg) bool { return send(unmarshal(m.Subject, m.Header, m.Data)) })
}

// Close ends the subscription.
func (l *listener) Close() {
	l.stop()
	_ = l.sub.Unsubscribe() // it fails only if the connection is closed
}
