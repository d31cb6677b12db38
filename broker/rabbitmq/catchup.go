package rabbitmq

import (
	"context"
	"fmt"
	"math"

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

// CatchUp waits until as many messages were taken as had come or were ready in the queue
// when it was called, or until no message is ready. Then it waits until they are settled.
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
	var consumers map[*consumer]*inflight.Window // consumers of this process
	if err := until(func() (bool, error) {
		consumers = b.consumers(q.name)
		return len(consumers) > 0, nil
	}); err != nil {
		return err
	}
	for c, window := range consumers {
		if err := c.catchUp(ctx, q, until); err != nil {
			return err
		}
		settled := window.Settled()
		if err := until(func() (bool, error) { return settled(), nil }); err != nil {
			return err
		}
	}
	return nil
}

// catchUp waits until the window has taken as many messages as have come or were ready in
// the queue, or all that have come when none is ready, since other processes may have got
// some.
func (c *consumer) catchUp(ctx context.Context, q queue, until func(func() (bool, error)) error) error {
	backlog := int64(math.MaxInt64) // messages that the window has to take
	return until(func() (bool, error) {
		if c.taken.Load() >= backlog {
			return true, nil
		}
		ready, err := c.count(ctx, q)
		if came := c.flow.came.Load(); err == nil && (ready == 0 || backlog == math.MaxInt64) {
			backlog = min(backlog, came+ready)
		}
		return false, err
	})
}

// count asks how many messages are ready. It returns when all messages that had left the
// queue by then have come. While the server is asked about the queue, it sends messages
// of the queue behind its answer, and before the answer to the next question on that
// channel. So count asks twice.
func (c *consumer) count(ctx context.Context, q queue) (ready int64, err error) {
	err = await(ctx, c.broker.begin(fmt.Sprintf("messages of %p", c), func() error {
		c.asking.Lock()
		defer c.asking.Unlock()
		found, err := c.channel.QueueDeclarePassive(q.name, true, false, false, false, nil)
		if err != nil {
			return err
		}
		c.ready.Store(int64(found.Messages))
		_, err = c.channel.QueueDeclarePassive(q.name, true, false, false, false, nil)
		return err
	}))
	if err != nil {
		return 0, fmt.Errorf("queue %s: %w", q.name, err)
	}
	return c.ready.Load(), nil
}

// consumers returns the consumers of a queue, each with the window that it delivers to.
func (b *Broker) consumers(queue string) map[*consumer]*inflight.Window {
	all := make(map[*consumer]*inflight.Window)
	for c, s := range b.consuming.Range {
		if s := s.(*subscription); s.queue.name == queue {
			all[c.(*consumer)] = s.window
		}
	}
	return all
}
