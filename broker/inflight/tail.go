package inflight

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// ErrClosed is the error of a Subscribe after the subscriber was closed or the
// broker's Run has ended.
var ErrClosed = errors.New("closed")

// A Listener receives what is published to a topic, on one connection.
type Listener interface {
	// Receive calls send with each message until send returns false, ctx is done,
	// or nothing more can come on this connection. An ack of a message has no
	// effect.
	Receive(ctx context.Context, send func(*message.Message) bool)

	// Close releases what the listener has at the server. It is called once,
	// after Receive.
	Close()
}

// tailRetry is the delay between two tries to listen.
const tailRetry = 50 * time.Millisecond

// Tail delivers what a listener receives until ctx is done, the subscriber is
// closed or the term ends. It returns as soon as the first listener listens, or
// the error of that. When a listener has finished, Tail listens again: what was
// published meanwhile is missed.
//
// Listen is called with again false for the first time, when it returns an error
// if there is no connection. Later again is true, and it waits for a connection,
// or until ctx is done. The ctx of the first call is that of the caller.
func (s *Subscriptions) Tail(
	ctx context.Context, listen func(ctx context.Context, again bool) (Listener, error),
) (<-chan *message.Message, error) {
	if !s.Join() {
		return nil, ErrClosed
	}
	l, err := listen(ctx, false)
	if err != nil {
		s.Left()
		s.term.Done()
		return nil, err
	}
	out := make(chan *message.Message)
	go func() {
		defer s.term.Done()
		defer s.Left()
		defer close(out)
		ctx, stop := s.Until(ctx)
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
		for l != nil {
			l.Receive(ctx, send)
			l.Close()
			l = relisten(ctx, listen)
		}
	}()
	return out, nil
}

// relisten listens again until that works. It returns nil if ctx is done first.
func relisten(ctx context.Context, listen func(ctx context.Context, again bool) (Listener, error)) Listener {
	for ctx.Err() == nil {
		if l, err := listen(ctx, true); err == nil {
			return l
		}
		pause.For(ctx, tailRetry)
	}
	return nil
}
