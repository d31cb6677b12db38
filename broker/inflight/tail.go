package inflight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// ErrClosed is the error of a Subscribe after the subscriber was closed or the
// broker's Run has ended.
var ErrClosed = errors.New("closed")

// A Listener receives messages as they are published to a topic, on one connection.
type Listener interface {
	// Receive calls send with each message until send returns false, ctx is done,
	// or nothing more can come on this connection. An ack of a message has no
	// effect.
	Receive(ctx context.Context, send func(*message.Message) bool)

	// Close ends the listener's subscription at the server. It is called once, after
	// Receive.
	Close()
}

// Each calls do with each value of a channel, until do returns false, the channel is closed
// or ctx is done.
func Each[T any](ctx context.Context, in <-chan T, do func(T) bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case v, open := <-in:
			if !open || !do(v) {
				return
			}
		}
	}
}

// tailRetry is the delay between two tries to listen.
const tailRetry = 50 * time.Millisecond

// A Tail subscribes to messages that are published from now on. See [broker.Broker] for its
// contract. When a listener has finished, the tail listens again, unless that is denied. It
// misses the messages that are published meanwhile.
type Tail struct {
	*Subscriptions

	// Listen returns a listener that listens, or an error if there is no connection.
	Listen func(ctx context.Context, topic string) (Listener, error)
}

// Subscribe returns as soon as the first listener listens, or returns its error. It
// delivers the messages that listeners receive until ctx is done, the subscriber is closed
// or the term ends.
func (t Tail) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if !t.join() {
		return nil, ErrClosed
	}
	l, err := t.Listen(ctx, topic)
	if err != nil {
		t.open.Done()
		t.term.Done()
		return nil, fmt.Errorf("tail %.200s: %w", topic, err)
	}
	out := make(chan *message.Message)
	go func() {
		defer t.term.Done()
		defer t.open.Done()
		defer close(out)
		ctx, stop := pause.WhileBoth(ctx, t.ctx)
		defer stop()
		send := func(msg *message.Message) bool {
			msg.SetContext(ctx)
			select {
			case out <- msg:
				return true
			case <-ctx.Done():
				return false
			}
		}
		for {
			if err == nil {
				l.Receive(ctx, send)
				l.Close()
			} else {
				pause.For(ctx, tailRetry)
			}
			if ctx.Err() != nil || errors.Is(err, broker.ErrDenied) {
				return
			}
			l, err = t.Listen(ctx, topic)
		}
	}()
	return out, nil
}
