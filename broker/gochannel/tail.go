package gochannel

import (
	"context"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
)

// tailBuffer is how many messages a reader of a tail may be behind. More are
// dropped.
const tailBuffer = 8192

// tails subscribes to what is published from now on. See [broker.Broker] for its
// contract.
type tails struct {
	*inflight.Subscriptions
	broker *Broker
}

// Subscribe delivers what is published to a topic from now on.
func (t tails) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	return t.Tail(ctx, func(context.Context, bool) (inflight.Listener, error) {
		b, l := t.broker, make(tail, tailBuffer)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.tails[topic] == nil {
			b.tails[topic] = make(map[tail]bool)
		}
		b.tails[topic][l] = true
		return listener{l, b, topic}, nil
	})
}

// A tail has what its reader has not read.
type tail chan *message.Message

// offer adds a message, unless the reader is too far behind.
func (t tail) offer(msg *message.Message) {
	select {
	case t <- msg:
	default:
	}
}

// A listener reads a tail.
type listener struct {
	tail
	broker *Broker
	topic  string
}

// Receive sends copies of the messages.
func (l listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	for {
		select {
		case msg := <-l.tail:
			if !send(msg.Copy()) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// Close ends the tail.
func (l listener) Close() {
	l.broker.mu.Lock()
	defer l.broker.mu.Unlock()
	delete(l.broker.tails[l.topic], l.tail)
}
