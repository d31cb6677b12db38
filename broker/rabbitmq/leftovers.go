package rabbitmq

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Version 0.1.0 published a nacked message to one of five retry queues of its queue, where it
// waited. The leftovers of a subscription are the messages in these queues. They are delivered
// as the messages of the queue are, and what must wait then waits in the inbox. An operator
// deletes the queues: the server forgets the unacked messages of a queue that is deleted, and
// an instance of version 0.1.0 may still have some.
type leftovers struct {
	*subscription
	finish context.CancelFunc // called if there are no such queues
	why    string             // the reason that was logged last
}

// leftoverSuffixes end the names of the retry queues. The queues were declared in this order,
// and are deleted in the opposite one. So there are none if the first does not exist.
var leftoverSuffixes = []string{"2s", "6s", "30s", "2m", "10m"}

const (
	leftoverPrefetch = 256         // messages of each queue that are held here
	leftoverWait     = time.Minute // until queues that can't be read are tried again
	maxLeftoverName  = 240         // bytes of a name before its suffix
)

// leftoverQueues returns the names of the retry queues of a queue.
func leftoverQueues(of queue) (names []string) {
	for _, suffix := range leftoverSuffixes {
		names = append(names, shorten(of.name, maxLeftoverName)+".retry."+suffix)
	}
	return names
}

// run delivers the leftovers until ctx is done. It returns the last consumer, or nil if there
// is none.
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
	asking, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var queues []string
	for _, name := range leftoverQueues(l.queue) {
		err := l.broker.ask(asking, fmt.Sprintf("leftovers %s of %p", name, l), conn, queue{name: name}.exists)
		switch {
		case err == nil:
			queues = append(queues, name)
		case code(err) != amqp.NotFound:
			return nil, fmt.Errorf("queue %s: %w", name, err)
		case len(queues) == 0:
			l.finish()
			return nil, err
		}
	}
	c := &consumer{broker: l.broker, conn: conn}
	return c, c.open(ctx, leftoverPrefetch, queues...)
}

// failed logs why the queues can't be read, unless it is the same reason as before.
func (l *leftovers) failed(ctx context.Context, err error) (wait time.Duration) {
	if _, away := l.broker.main.Current(); away != nil {
		return 0
	}
	if err.Error() != l.why {
		l.why = err.Error()
		l.broker.log.WarnContext(ctx, "retry queues of version 0.1.0 are not read, will retry", "queue", l.queue.name, "error", err)
	}
	return leftoverWait
}

// deliver delivers the messages of the queues until ctx is done, or the queues were deleted.
func (l *leftovers) deliver(ctx context.Context, c *consumer) error {
	l.broker.log.InfoContext(ctx, "messages that version 0.1.0 left in retry queues are handled; delete the queues when they are empty", "queues", c.tags)
	var delivering sync.WaitGroup
	for _, queue := range c.in {
		delivering.Go(func() {
			for in := range queue {
				l.window.Add(&delivery{consumer: c, topic: l.topic, in: in}, deliveries(&in))
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		delivering.Wait()
	}()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
		return c.why()
	}
}
