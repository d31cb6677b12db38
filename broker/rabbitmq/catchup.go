package rabbitmq

import (
	"context"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// Interruptions returns how often a connection was lost, and why there is none now.
func (b *Broker) Interruptions() (int64, error) {
	n := b.outages.Load()
	if _, err := b.main.Current(); err != nil {
		return n, err
	}
	_, err := b.out.Current()
	return n, err
}

// CatchUp waits until as many messages have come as were ready in the queue when
// it was called, or none is ready, and until what has come is settled.
func (b *Broker) CatchUp(ctx context.Context, role string) error {
	queue := b.queueOf(role, b.opt.Routing.Subscription())
	n := b.outages.Load()
	w := backlog{broker: b, queue: queue}
	for _, done := range []func(context.Context) (bool, error){w.begin, w.delivered, w.received, w.settled} {
		err := pause.Until(ctx, func() (bool, error) {
			if now, away := b.Interruptions(); away != nil {
				return false, away
			} else if now != n {
				return false, fmt.Errorf("%w: queue %s: the connection was lost meanwhile", connection.ErrNotConnected, queue.name)
			}
			return done(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A backlog is what waits in a queue at a moment.
type backlog struct {
	broker    *Broker
	queue     queue
	consumers map[*consumer]*inflight.Window // of this process
	ready     int                            // messages at the server, at first
	before    int                            // messages that had come here by then
	came      map[*consumer]int              // messages that had come when none was ready any more
	open      []func() bool                  // of each consumer, whether what it then had in flight is settled
}

// begin counts what is ready in the queue, as soon as it is consumed.
func (w *backlog) begin(ctx context.Context) (done bool, err error) {
	if w.consumers = w.broker.consumers(w.queue.name); len(w.consumers) == 0 {
		return false, nil
	}
	w.before = w.count()
	w.ready, err = w.broker.ready(ctx, w.queue)
	return true, err
}

// delivered reports whether the server has sent the backlog: to us, or, if it is
// empty, to anybody.
func (w *backlog) delivered(ctx context.Context) (bool, error) {
	if w.count() >= w.before+w.ready {
		return true, nil
	}
	ready, err := w.broker.ready(ctx, w.queue)
	return ready == 0, err
}

// count returns how many messages have come.
func (w *backlog) count() (n int) {
	for c := range w.consumers {
		n += c.flow.count()
	}
	return n
}

// received reports whether what the server has sent to us has come. The server
// answers on the channel of a consumer behind what it has sent there.
func (w *backlog) received(ctx context.Context) (bool, error) {
	if w.came == nil {
		came := make(map[*consumer]int)
		for c := range w.consumers {
			if err := w.broker.within(ctx, c.sync); err != nil {
				return false, fmt.Errorf("queue %s: %w", w.queue.name, err)
			}
			came[c] = c.flow.count()
		}
		w.came = came
	}
	for c, n := range w.came {
		if c.taken.Load() < int64(n) {
			return false, nil
		}
	}
	return true, nil
}

// settled reports whether what has come is acked or nacked.
func (w *backlog) settled(context.Context) (bool, error) {
	if w.open == nil {
		for _, window := range w.consumers {
			w.open = append(w.open, window.Settled())
		}
	}
	return !slices.ContainsFunc(w.open, func(settled func() bool) bool { return !settled() }), nil
}

// consumers returns those of a queue, and where each delivers.
func (b *Broker) consumers(queue string) map[*consumer]*inflight.Window {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[*consumer]*inflight.Window)
	for s, why := range b.open {
		if c := s.current.Load(); s.queue.name == queue && why == nil && c != nil {
			all[c] = s.window
		}
	}
	return all
}

// ready returns how many messages are ready in a queue.
func (b *Broker) ready(ctx context.Context, q queue) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	conn, err := b.main.Current()
	if err != nil {
		return 0, err
	}
	err = b.declareAlone(ctx, b.channelOf(q.name), conn, func(ch *amqp.Channel) error {
		found, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
		n = found.Messages
		return err
	})
	return n, b.explain("queue "+q.name, err)
}

// sync waits for an answer of the server on the channel. It changes nothing: the
// prefetch of a consumer is that of its beginning.
func (c *consumer) sync() error {
	c.calls.Lock()
	defer c.calls.Unlock()
	return c.channel.Qos(prefetch, 0, false)
}
