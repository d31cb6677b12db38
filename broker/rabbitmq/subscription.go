package rabbitmq

import (
	"context"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

const (
	prefetch    = 4096                   // messages in flight of a subscription
	maxInFlight = 64 << 20               // their bytes
	ackWait     = 30 * time.Second       // how long messages in flight can be acked after Close
	lastAcks    = 100 * time.Millisecond // the same after the end of Run: for those that are on their way
)

// A subscription is one call of Subscribe. It has a connection of its own: what
// is too much for it holds up nobody else.
type subscription struct {
	broker  *Broker
	topic   string
	queue   queue
	closing <-chan struct{} // closed with the subscriber
	window  *inflight.Window
}

// run takes messages until ctx is done. Then it ends the intake, calls left, and
// waits for the messages in flight.
func (s *subscription) run(ctx context.Context, left func()) {
	c := s.take(ctx)
	s.broker.left(s)
	s.window.Close()
	left()
	if c == nil {
		nothing := make(chan struct{})
		close(nothing)
		s.window.Wait(nothing)
		return
	}
	c.cancel()
	s.settle(c)
	c.end()
}

// settle waits for messages in flight as long as somebody may ack them.
func (s *subscription) settle(c *consumer) {
	stop := make(chan struct{})
	idle := make(chan struct{})
	go func() {
		defer close(stop)
		select {
		case <-idle:
			return
		case <-c.conn.gone:
			return
		case <-s.broker.term.Over():
		case <-s.closing:
			t := time.NewTimer(ackWait)
			defer t.Stop()
			select {
			case <-idle:
				return
			case <-c.conn.gone:
				return
			case <-s.broker.term.Over():
			case <-t.C:
				return
			}
		}
		t := time.NewTimer(lastAcks)
		defer t.Stop()
		select {
		case <-idle:
		case <-t.C:
		}
	}()
	s.window.Wait(stop)
	close(idle)
	<-stop
}

// take consumes until ctx is done, on one connection after the other. It returns
// the last one, nil if there is none.
func (s *subscription) take(ctx context.Context) *consumer {
	b := s.broker
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if b.main.usable(ctx) == nil { // which has the exchange made
			return nil
		}
		c, err := s.consume(ctx)
		if err == nil {
			b.attached(s, nil)
			err = c.deliver(ctx, s.window)
			if ctx.Err() != nil {
				return c
			}
			c.end()
			backoff = minBackoff
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errUnfit) {
			backoff = maxBackoff
		}
		if b.attached(s, err) {
			b.log.WarnContext(ctx, "subscription interrupted, will retry", "queue", s.queue.name, "error", err)
		}
		if !pause.For(ctx, backoff) {
			return nil
		}
	}
}
