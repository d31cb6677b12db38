package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/failpoint"
)

// A consumer takes from a queue on one connection, which ends with it: the
// server then gives what was not acked to others, or here again.
type consumer struct {
	topic   string
	conn    *connection
	channel *amqp.Channel
	in      <-chan amqp.Delivery
	closed  <-chan *amqp.Error
	valve   *valve
	acks    *acks
}

// tag names the one consumer of a channel.
const tag = "timer-service"

// consume begins to consume.
func (s *subscription) consume(ctx context.Context) (*consumer, error) {
	if err := s.broker.makeRole(ctx, s.queue); err != nil {
		return nil, err
	}
	c := &consumer{topic: s.topic, valve: newValve()}
	var err error
	if c.conn, err = s.broker.dial(ctx, s.broker.servers, s.queue.name, c.valve); err != nil {
		return nil, err
	}
	err = s.broker.within(ctx, func() error { return c.open(s.queue) })
	if err != nil {
		c.conn.end()
		return nil, err
	}
	c.acks = newAcks(c.channel)
	return c, nil
}

func (c *consumer) open(q queue) (err error) {
	if c.channel, err = c.conn.Channel(); err != nil {
		return err
	}
	c.closed = c.channel.NotifyClose(make(chan *amqp.Error, 1))
	if err = c.channel.Qos(prefetch, 0, false); err != nil {
		return err
	}
	c.in, err = c.channel.Consume(q.name, tag, false, false, false, false, nil)
	return err
}

// deliver hands messages to the window until ctx is done, or the server ends it.
func (c *consumer) deliver(ctx context.Context, w *inflight.Window) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case in, ok := <-c.in:
			if !ok {
				return c.why()
			}
			failpoint.Here("fetched")
			w.Add(&delivery{consumer: c, in: in}, deliveries(&in))
			c.valve.taken()
		}
	}
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
	if c.conn.alive() {
		return errors.New("the server ended the consumer: the queue was deleted, or moved")
	}
	return ErrNotConnected
}

// cancel tells the server to send no more, and gives back what it has sent and
// nobody has. If it does not answer the connection ends.
func (c *consumer) cancel() {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for in := range c.in {
			c.acks.giveBack(in.DeliveryTag)
			c.valve.taken()
		}
	}()
	late := time.AfterFunc(apiTimeout, func() { _ = c.conn.wire.Close() })
	defer late.Stop()
	if err := c.channel.Cancel(tag, false); err != nil {
		c.conn.end()
	}
	<-drained
	c.acks.canceled()
}

// end sends the last acks and closes the connection.
func (c *consumer) end() {
	c.acks.close()
	c.conn.end()
}

// deliveries returns how often the server has delivered a message, this time
// included. Classic queues only tell whether it is the first time.
func deliveries(in *amqp.Delivery) int {
	if text, ok := readable(in.Headers["x-delivery-count"]); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1<<30 {
			return n + 1
		}
	}
	if in.Redelivered {
		return 2
	}
	return 1
}

// A delivery is a message in flight. It is an [inflight.Delivery].
type delivery struct {
	consumer *consumer
	in       amqp.Delivery
}

// headerBytes is about what a header takes in memory beside its text.
const headerBytes = 128

// Topic returns the topic that was subscribed to.
func (d *delivery) Topic() string { return d.consumer.topic }

// Header returns the value of a header, or "".
func (d *delivery) Header(name string) string { return header(&d.in, name) }

// Body returns the body.
func (d *delivery) Body() []byte { return d.in.Body }

// Bytes returns about how much memory it takes.
func (d *delivery) Bytes() int { return len(d.in.Body) + 3*headerBytes + weight(d.in.Headers) }

// weight returns about how much memory the value of a header takes.
func weight(value any) int {
	n := headerBytes
	switch v := value.(type) {
	case string:
		n += len(v)
	case []byte:
		n += len(v)
	case []any:
		for _, inner := range v {
			n += weight(inner)
		}
	case amqp.Table:
		for name, inner := range v {
			n += len(name) + weight(inner)
		}
	}
	return n
}

// Message returns a new message.
func (d *delivery) Message() *message.Message { return unmarshal(d.consumer.topic, &d.in) }

// Stale reports whether the connection has ended.
func (d *delivery) Stale() bool { return !d.consumer.conn.alive() || d.consumer.channel.IsClosed() }

// Ack tells the server that it is handled.
func (d *delivery) Ack() { d.consumer.acks.ack(d.in.DeliveryTag) }

// Return gives it back to the server.
func (d *delivery) Return() { d.consumer.acks.giveBack(d.in.DeliveryTag) }

// String names it for people.
func (d *delivery) String() string {
	return fmt.Sprintf("delivery %d of %s", d.in.DeliveryTag, d.Topic())
}

var _ inflight.Delivery = (*delivery)(nil)
