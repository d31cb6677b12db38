package rabbitmq

import (
	"context"
	"fmt"

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
	q, n := b.queueOf(role, b.opt.Routing.Subscription()), b.outages.Load()
	until := func(done func() (bool, error)) error {
		return pause.Until(ctx, func() (bool, error) {
			if now, away := b.Interruptions(); away != nil {
				return false, away
			} else if now != n {
				return false, fmt.Errorf("%w: queue %s: the connection was lost meanwhile", connection.ErrNotConnected, q.name)
			}
			return done()
		})
	}
	var consumers map[*consumer]*inflight.Window // of this process
	came := func() (n int) {
		for c := range consumers {
			n += c.flow.count()
		}
		return n
	}
	backlog := 0 // how many have come when all have that are ready now
	if err := until(func() (bool, error) {
		if consumers = b.consumers(q.name); len(consumers) == 0 {
			return false, nil
		}
		before := came()
		ready, err := b.ready(ctx, q)
		backlog = before + ready
		return true, err
	}); err != nil {
		return err
	}
	if err := until(func() (bool, error) {
		if came() >= backlog {
			return true, nil
		}
		ready, err := b.ready(ctx, q) // others may have got them
		return ready == 0, err
	}); err != nil {
		return err
	}
	for c, window := range consumers {
		// The server answers on the channel of a consumer behind what it has sent there.
		if err := b.within(ctx, c.sync); err != nil {
			return fmt.Errorf("queue %s: %w", q.name, err)
		}
		sent := int64(c.flow.count())
		if err := until(func() (bool, error) { return c.taken.Load() >= sent, nil }); err != nil {
			return err
		}
		settled := window.Settled()
		if err := until(func() (bool, error) { return settled(), nil }); err != nil {
			return err
		}
	}
	return nil
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
func (b *Broker) ready(ctx context.Context, q queue) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	conn, err := b.main.Current()
	if err != nil {
		return 0, err
	}
	n := 0
	if err := b.within(ctx, func() error {
		return onChannel(conn, func(ch *amqp.Channel) error {
			found, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
			n = found.Messages
			return err
		})
	}); err != nil {
		return 0, fmt.Errorf("queue %s: %w", q.name, err)
	}
	return n, nil
}

// sync waits for an answer of the server on the channel. It changes nothing: the
// prefetch of a consumer is that of its beginning.
func (c *consumer) sync() error {
	c.calls.Lock()
	defer c.calls.Unlock()
	return c.channel.Qos(prefetch, 0, false)
}
