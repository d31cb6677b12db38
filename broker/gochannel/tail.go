package gochannel

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// tailBuffer is how many messages a reader of a tail may be behind. Further messages are
// dropped.
const tailBuffer = 8192

// listen begins to collect messages that are published to a topic.
func (b *Broker) listen(_ context.Context, topic string) (inflight.Listener, error) {
	l := listener{b, topic, make(chan *message.Message, tailBuffer)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tails[l] = true
	return l, nil
}

// A listener receives the messages of a topic.
type listener struct {
	broker *Broker
	topic  string
	in     chan *message.Message // messages that the reader has not read yet
}

// offer adds a message, unless the reader is too far behind.
func (l listener) offer(msg *message.Message) {
	select {
	case l.in <- msg:
	default:
	}
}

// Receive sends copies of the messages.
func (l listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	inflight.Each(ctx, l.in, func(msg *message.Message) bool { return send(msg.Copy()) })
}

// Close ends the listener.
func (l listener) Close() {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	delete(l.broker.tails, l)
}
