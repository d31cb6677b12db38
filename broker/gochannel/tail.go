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
	l := listener{make(tail, tailBuffer), b, topic}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tails[topic] == nil {
		b.tails[topic] = make(map[tail]bool)
	}
	b.tails[topic][l.tail] = true
	return l, nil
}

// A tail holds the messages that its reader has not read yet.
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
