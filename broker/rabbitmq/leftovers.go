package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// Version 0.1.0 published a nacked message to one of five retry queues of its queue, where it
// waited. The leftovers of a subscription are the messages in these queues. They are delivered
// as the messages of the queue are, and what must wait then waits in the inbox. When all are
// acked the queues are deleted:
//
//	found ─► consumed ─► empty, all acked ─► consumer canceled ─► for a second empty and unused ─► deleted
//
// The server forgets the unacked messages of a queue that is deleted. So a queue is not deleted
// while another instance, perhaps of version 0.1.0, consumes it, or is about to return messages
// to it.
type leftovers struct {
	*subscription
	finish  context.CancelFunc // called when the queues are gone, or have to stay
	queues  []string           // the queues that exist
	handled atomic.Int64       // messages that were acked
	why     string             // the reason that was logged last
}

// leftoverSuffixes end the names of the retry queues. The queues were declared in this order
// and are deleted in the opposite one. So there are none if the first does not exist.
var leftoverSuffixes = []string{"2s", "6s", "30s", "2m", "10m"}

const (
	leftoverPrefetch = 256         // messages of each queue that are held here
	leftoverSettle   = time.Second // a stop of version 0.1.0 returns messages within it
	leftoverWait     = time.Minute // until queues that can't be read or deleted are tried again
	maxLeftoverName  = 240         // bytes of a name before its suffix
)

// Reasons why a retry queue is not deleted now.
var (
	errInUse = errors.New("another instance reads it")
	errReady = errors.New("it has messages")
)

// leftoverQueues returns the names of the retry queues of a queue.
func leftoverQueues(of queue) (names []string) {
	for _, suffix := range leftoverSuffixes {
		names = append(names, shorten(of.name, maxLeftoverName)+".retry."+suffix)
	}
	return names
}

// run delivers the leftovers until the queues are deleted, or ctx is done. It returns the last
// consumer, or nil if there is none.
func (l *leftovers) run(ctx context.Context) *consumer {
	if l.broker.opt.Client {
		return nil
	}
	ctx, l.finish = context.WithCancel(ctx)
	defer l.finish()
	return l.broker.consume(ctx, l)
}

// open begins to consume the queues that exist, on the connection that declares.
func (l *leftovers) open(ctx context.Context, conn *serverConn) (*consumer, error) {
	l.queues = nil
	for _, name := range leftoverQueues(l.queue) {
		err := l.ask(ctx, conn, "look for", name, func(*amqp.Channel, amqp.Queue) error { return nil })
		switch {
		case err == nil:
			l.queues = append(l.queues, name)
		case code(err) != amqp.NotFound:
			return nil, err
		case len(l.queues) == 0:
			l.finish()
			return nil, err
		}
	}
	c := &consumer{broker: l.broker, conn: conn}
	return c, c.open(ctx, leftoverPrefetch, l.queues...)
}

// ask calls f with the server's description of a queue, on a channel of its own. It says what
// for.
func (l *leftovers) ask(ctx context.Context, conn *serverConn, what, name string, f func(*amqp.Channel, amqp.Queue) error) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err := l.broker.ask(ctx, fmt.Sprintf("%s leftovers %s of %p", what, name, l), conn, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		if err != nil {
			return err
		}
		return f(ch, q)
	})
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	return nil
}

// failed logs why the queues can't be read or deleted, unless it is the same reason as before.
func (l *leftovers) failed(ctx context.Context, err error) (wait time.Duration) {
	if _, away := l.broker.main.Current(); away != nil || ctx.Err() != nil || errors.Is(err, errReady) {
		return 0
	}
	if err.Error() != l.why {
		l.why = err.Error()
		l.broker.log.WarnContext(ctx, "retry queues of version 0.1.0 are not read or not deleted yet, will retry", "queue", l.queue.name, "error", err)
	}
	return leftoverWait
}

// deliver delivers the messages of the queues, and deletes the queues when all are acked.
func (l *leftovers) deliver(ctx context.Context, c *consumer) error {
	var delivering sync.WaitGroup
	unacked := new(atomic.Int64) // messages of this consumer
	for _, queue := range c.in {
		delivering.Go(func() {
			for in := range queue {
				unacked.Add(1)
				l.window.Add(&leftover{&delivery{consumer: c, topic: l.topic, in: in}, l, unacked}, deliveries(&in))
			}
		})
	}
	acked := func() (bool, error) {
		if c.channel.IsClosed() {
			return false, c.why()
		}
		return unacked.Load() == 0, nil
	}
	pause.For(ctx, leftoverSettle) // the first messages come
	if err := pause.Until(ctx, func() (bool, error) {
		ok, err := acked()
		return ok && l.each(ctx, c.conn, "count", empty) == nil, err
	}); err != nil {
		return err
	}
	c.cancel() // messages that came meanwhile are returned or delivered
	delivering.Wait()
	if err := pause.Until(ctx, acked); err != nil {
		return err
	}
	if err := l.each(ctx, c.conn, "check", unused); err != nil {
		return err
	}
	if !pause.For(ctx, leftoverSettle) {
		return ctx.Err()
	}
	slices.Reverse(l.queues)
	err := l.each(ctx, c.conn, "delete", deleteUnused)
	switch {
	case err == nil:
		l.broker.log.InfoContext(ctx, "messages that version 0.1.0 left in retry queues were handled, and the queues are deleted",
			"queue", l.queue.name, "messages", l.handled.Load())
	case code(err) == amqp.AccessRefused:
		l.broker.log.WarnContext(ctx, "messages that version 0.1.0 left in retry queues were handled; delete the queues, which this user may not do",
			"queues", l.queues, "messages", l.handled.Load(), "error", err)
	default:
		return err
	}
	c.close()
	l.finish()
	return nil
}

// each calls f with each queue, until that is an error. A queue that is deleted meanwhile is
// none.
func (l *leftovers) each(ctx context.Context, conn *serverConn, what string, f func(*amqp.Channel, amqp.Queue) error) error {
	for _, name := range l.queues {
		if err := l.ask(ctx, conn, what, name, f); err != nil && code(err) != amqp.NotFound {
			return err
		}
	}
	return nil
}

// empty returns an error if messages of the queue are ready.
func empty(_ *amqp.Channel, q amqp.Queue) error {
	if q.Messages > 0 {
		return errReady
	}
	return nil
}

// unused returns an error if messages of the queue are ready, or someone consumes it.
func unused(ch *amqp.Channel, q amqp.Queue) error {
	if q.Consumers > 0 {
		return errInUse
	}
	return empty(ch, q)
}

// deleteUnused deletes the queue if it is unused. The server has conditions for that, too, but
// not for quorum queues.
func deleteUnused(ch *amqp.Channel, q amqp.Queue) error {
	err := unused(ch, q)
	if err == nil {
		_, err = ch.QueueDelete(q.Name, false, false, false)
	}
	return err
}

// A leftover is a message of a retry queue in flight.
type leftover struct {
	*delivery
	of      *leftovers
	unacked *atomic.Int64
}

// Ack makes the server forget the message.
func (l *leftover) Ack() {
	l.delivery.Ack()
	l.of.handled.Add(1)
	l.unacked.Add(-1)
}
