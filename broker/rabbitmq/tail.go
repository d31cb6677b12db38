package rabbitmq

import (
	"context"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
)

const (
	tailPrefetch = 256  // messages that a reader of a tail may be behind here
	tailBuffer   = 8192 // further messages that wait at the server, which then drops the oldest
	tailAcks     = 64   // messages acked at once, since each ack costs the server and us a frame
)

// A listener has a temporary queue, which ends with its connection or consumer.
type listener struct {
	broker  *Broker
	topic   string
	channel *amqp.Channel
	in      <-chan amqp.Delivery
}

// listen declares a queue and binds it to the key of a topic. If ctx ends first
// the queue is removed.
func (b *Broker) listen(ctx context.Context, topic string) (inflight.Listener, error) {
	if err := checkName(topic); err != nil {
		return nil, err
	}
	if strings.Contains(topic, anyTenant) && !b.isCommands(topic) {
		return nil, fmt.Errorf("%w: a direct exchange has no wildcard", broker.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	conn, err := b.main.Current()
	if err != nil {
		return nil, err
	}
	l := &listener{broker: b, topic: topic}
	err = b.openChannel(ctx, conn, func(channel *amqp.Channel) error {
		l.channel = channel
		q, err := channel.QueueDeclare("", false, true, true, false, amqp.Table{argMax: tailBuffer})
		if err != nil {
			return err
		}
		if err := (queue{name: q.Name, key: topic, exchanges: b.exchanges(topic)}).bind(channel); err != nil {
			return err
		}
		if err := channel.Qos(tailPrefetch, 0, false); err != nil {
			return err
		}
		l.in, err = channel.Consume(q.Name, q.Name, false, true, false, false, nil)
		return err
	})
	if err != nil {
		return nil, denied(err)
	}
	return l, nil
}

// Receive sends messages until ctx is done or the channel is closed.
func (l *listener) Receive(ctx context.Context, send func(*message.Message) bool) {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case in, ok := <-l.in:
			if !ok || !send(unmarshal(l.topic, &in)) {
				return
			}
			if n%tailAcks == 0 {
				_ = l.channel.Ack(in.DeliveryTag, true) // it fails only if the channel is closed
			}
		}
	}
}

// Close removes the queue. If the server does not answer, the queue ends with the
// connection.
func (l *listener) Close() {
	l.broker.attempt(closeTimeout, func() { _ = l.channel.Close() })
}
