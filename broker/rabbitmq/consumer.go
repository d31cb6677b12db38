package rabbitmq

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/failpoint"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/internal/retry"
)

// A consumer takes messages from queues on one channel. When the channel ends the server
// redelivers the messages without an ack.
type consumer struct {
	broker  *Broker
	conn    *serverConn
	channel *amqp.Channel
	tags    []string               // tags of the consumers at the server: the names of the queues
	in      []<-chan amqp.Delivery // messages of each queue
	closed  <-chan *amqp.Error
	flow    *flow        // flow of the connection; nil if the connection has other channels
	taken   atomic.Int64 // messages that the window has taken
	ready   atomic.Int64 // messages in the queue, by the server's last answer
	asking  sync.Mutex   // held while the server is asked on the channel

	mu       sync.Mutex
	canceled bool     // the server sends no more
	returned []uint64 // tags to give back when canceled; earlier they would come here again
}

// An intake opens one consumer after the other, and handles its messages.
type intake interface {
	// open begins to consume. The connection is the one that declares.
	open(ctx context.Context, conn *serverConn) (*consumer, error)

	// deliver delivers messages until ctx is done, or returns why the server ends it.
	deliver(ctx context.Context, c *consumer) error

	// failed is called with the reason why there is no consumer. It returns the shortest
	// wait before the next one.
	failed(ctx context.Context, err error) (wait time.Duration)
}

// consume opens one consumer after the other until ctx is done. It returns the last one,
// or nil if there is none.
func (b *Broker) consume(ctx context.Context, in intake) *consumer {
	for failures := 1; ; failures++ {
		conn, err := b.main.Await(ctx) // the exchange is declared then
		if err != nil {
			return nil
		}
		c, err := in.open(ctx, conn)
		if err == nil {
			err = in.deliver(ctx, c)
			if ctx.Err() != nil {
				return c
			}
			c.close()
			failures = 1
		}
		if ctx.Err() != nil || !pause.For(ctx, max(retry.Verify.After(failures), in.failed(ctx, err))) {
			return nil
		}
	}
}

// open begins to consume, with a prefetch for each queue.
func (c *consumer) open(ctx context.Context, prefetch int, queues ...string) error {
	return c.broker.openChannel(ctx, c.conn, func(channel *amqp.Channel) error {
		c.channel, c.closed = channel, channel.NotifyClose(make(chan *amqp.Error, 1))
		if err := channel.Qos(prefetch, 0, false); err != nil {
			return err
		}
		for _, q := range queues {
			in, err := channel.Consume(q, q, false, false, false, false, nil)
			if err != nil {
				return err
			}
			c.tags, c.in = append(c.tags, q), append(c.in, in)
		}
		return nil
	})
}

// why returns why the server sends nothing more.
func (c *consumer) why() error {
	select {
	case err, ok := <-c.closed:
		if ok && err != nil {
			return err
		}
	default:
	}
	if !c.conn.IsClosed() {
		return errors.New("the server ended the consumer: the queue was deleted, or moved")
	}
	return connection.ErrNotConnected
}

// cancel makes the server send no more, and gives back the messages that no handler has.
func (c *consumer) cancel() {
	c.broker.attempt(apiTimeout, func() {
		for i, tag := range c.tags {
			var draining sync.WaitGroup
			draining.Go(func() {
				for in := range c.in[i] {
					c.giveBack(in.DeliveryTag)
				}
			})
			c.asking.Lock()
			if c.channel.Cancel(tag, false) != nil {
				_ = c.channel.Close()
			}
			c.asking.Unlock()
			draining.Wait()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.canceled = true
		for _, tag := range c.returned {
			_ = c.channel.Nack(tag, false, true)
		}
		c.returned = nil
	})
}

// close closes the channel after the acks that were sent, and also the connection if it
// has no other channels.
func (c *consumer) close() {
	if c.flow != nil {
		c.conn.end()
		return
	}
	c.broker.attempt(closeTimeout, func() { _ = c.channel.Close() })
}

// giveBack gives a message back to the server.
func (c *consumer) giveBack(tag uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.canceled {
		c.returned = append(c.returned, tag)
		return
	}
	_ = c.channel.Nack(tag, false, true) // if it fails, closing the channel gives the message back
}

// A delivery is a message in flight. It is an [inflight.Delivery].
type delivery struct {
	consumer *consumer
	topic    string
	in       amqp.Delivery
}

// Message returns a new message.
func (d *delivery) Message() *message.Message { return unmarshal(d.topic, &d.in) }

// Stale reports whether the channel has ended.
func (d *delivery) Stale() bool { return d.consumer.channel.IsClosed() }

// Ack makes the server forget the message.
func (d *delivery) Ack() {
	d.consumer.flow.release()
	_ = d.consumer.channel.Ack(d.in.DeliveryTag, false) // if it fails, the message is redelivered
	failpoint.Here("acked")
}

// Return gives the message back to the server.
func (d *delivery) Return() {
	d.consumer.flow.release()
	d.consumer.giveBack(d.in.DeliveryTag)
}

// headerBytes is about how much memory a header takes in addition to its text.
const headerBytes = 128

// Bytes returns about how much memory the message takes.
func (d *delivery) Bytes() int {
	n := len(d.in.Body) + 4*headerBytes
	for name, value := range d.in.Headers {
		n += len(name) + headerBytes
		switch v := value.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// maxDeliveries limits the count of earlier deliveries that a header may claim.
const maxDeliveries = 1 << 30

// deliveries returns how often the server has delivered a message, this time
// included. A classic queue only says whether it is the first time.
func deliveries(in *amqp.Delivery) int {
	if text, ok := readable(in.Headers["x-delivery-count"]); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 && n < maxDeliveries {
			return n + 1
		}
	}
	if in.Redelivered {
		return 2
	}
	return 1
}

var _ inflight.Delivery = (*delivery)(nil)
