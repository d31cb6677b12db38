package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/retry"
)

const (
	prefetch    = 4096             // messages in flight of a subscription, including messages that wait for their retry
	maxInFlight = 64 << 20         // bytes of these messages
	ackWait     = 30 * time.Second // how long messages in flight can be acked after Close
	// lastAcks is how long messages in flight can be acked after the end of Run.
	lastAcks = 100 * time.Millisecond
)

// subscriber subscribes for a role. See [broker.Broker] for its contract. After Close,
// messages in flight can still be acked for [ackWait], while [Broker.Run] runs.
type subscriber struct {
	*inflight.Subscriptions
	broker *Broker
	role   string
}

// SubscribeInitialize declares the queue of the role, so that the role gets all messages
// that are published from now on.
func (s *subscriber) SubscribeInitialize(topic string) error {
	if err := checkName(topic); err != nil {
		return err
	}
	return s.broker.ensureQueues(context.Background(), s.broker.queueOf(s.role, topic))
}

// Subscribe delivers the messages that the role has not acked yet. While there is a
// connection it returns when the role has its queue, so that the role gets all messages
// that are published from then on. It returns an error only after Close, or if the topic
// is invalid.
func (s *subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if err := checkName(topic); err != nil {
		return nil, err
	}
	window, err := s.Open(ctx, inflight.Options{Messages: prefetch, Bytes: maxInFlight})
	if err != nil {
		return nil, err
	}
	sub := &subscription{broker: s.broker, topic: topic, queue: s.broker.queueOf(s.role, topic), window: window}
	sub.fails(errNotBegun)
	_ = s.broker.ensureQueues(ctx, sub.queue) // if it fails, the subscription tries again
	window.Run(sub.run)
	return window.Messages(), nil
}

// errNotBegun says that a subscription is new and gets no messages yet.
var errNotBegun = errors.New("it has not begun")

// A subscription is one call of Subscribe. It has a connection of its own, so that the
// flow stops no other subscription when its messages are too large.
type subscription struct {
	broker *Broker
	topic  string
	queue  queue
	window *inflight.Window
}

// run takes messages until ctx is done. Then it ends the intake, and waits for the
// messages in flight.
func (s *subscription) run(ctx context.Context) {
	left := make(chan *consumer, 1)
	go func() { left <- (&leftovers{subscription: s}).run(ctx) }()
	c := s.broker.consume(ctx, s)
	s.broker.failures.Set(s, nil)
	s.window.Close()
	var gone chan struct{}
	if c != nil {
		gone = c.conn.gone
		c.cancel()
		defer c.close()
	}
	if l := <-left; l != nil {
		l.cancel()
		defer l.close()
	}
	s.window.Drain(ackWait, lastAcks, gone)
}

// open begins to consume on a new connection.
func (s *subscription) open(ctx context.Context, _ *serverConn) (*consumer, error) {
	if err := s.broker.ensureQueues(ctx, s.queue); err != nil {
		return nil, err
	}
	f := newFlow()
	conn, err := s.broker.dial(ctx, s.queue.name, f)
	if err != nil {
		return nil, err
	}
	c := &consumer{broker: s.broker, conn: conn, flow: f}
	if err := c.open(ctx, prefetch, s.queue.name); err != nil {
		conn.end()
		return nil, err
	}
	return c, nil
}

// fails notes why the subscription gets no messages. It reports whether that is news.
func (s *subscription) fails(why error) (news bool) {
	return s.broker.failures.Set(s, fmt.Errorf("subscription of queue %s: %w", s.queue.name, why))
}

// failed notes why the subscription gets no messages, and logs it if that is another
// reason than before.
func (s *subscription) failed(ctx context.Context, err error) (wait time.Duration) {
	if s.fails(err) {
		s.broker.log.WarnContext(ctx, "subscription interrupted, will retry", "queue", s.queue.name, "error", err)
	}
	if errors.Is(err, errUnfit) {
		return retry.Verify.Longest
	}
	return 0
}

// deliver adds messages to the window until ctx is done, or until the server ends the
// consumer.
func (s *subscription) deliver(ctx context.Context, c *consumer) error {
	s.broker.failures.Set(s, nil)
	s.broker.consuming.Store(c, s)
	defer s.broker.consuming.Delete(c)
	for {
		select {
		case <-ctx.Done():
			c.flow.open() // messages that still come are given back
			return nil
		case in, ok := <-c.in[0]:
			if !ok {
				s.broker.outages.Add(1)
				return c.why()
			}
			failpoint.Here("fetched")
			s.window.Add(&delivery{consumer: c, topic: s.topic, in: in}, deliveries(&in))
			c.taken.Add(1)
		}
	}
}

var _ message.SubscribeInitializer = (*subscriber)(nil)
