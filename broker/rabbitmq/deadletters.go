package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// returnTimeout is how long a visit may take, after its context has ended, to give back
// the messages that it has taken. The server does the same for a connection that is gone,
// but at a time of its own.
const returnTimeout = time.Second

// VisitDeadLetters visits the dead letters in the queue of a tenant. It takes them from
// the queue one by one. When it ends, for any reason, it gives the others
// back: they are in the queue as before, marked as redelivered. Until then another
// reader does not see the visited ones. The position of a dead letter is its number in
// the queue when the visit began. The tenant "" is possible only if all tenants share a
// queue.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, tenant timer.TenantID, visit func(*message.Message) (remove bool, err error),
) error {
	if tenant == "" && strings.Contains(b.opt.Routing.DeadLetters, "{tenant}") {
		return broker.ErrNameTenant
	}
	topic := b.opt.Routing.DeadLettersOf(tenant)
	if err := checkName(topic); err != nil {
		return err
	}
	if _, err := b.main.Current(); err != nil {
		return err
	}
	if !b.term.Begin() {
		return connection.ErrClosed
	}
	defer b.term.Done()
	visiting, stop := b.term.Until(ctx)
	defer stop()
	outliving, end := pause.Outlive(visiting, 0, returnTimeout)
	defer end()
	// When this connection ends, the server requeues the messages that were not removed.
	err := b.connected(outliving, "dead letters", func(conn *serverConn) (err error) {
		v := visitor{topic: topic, visit: visit}
		if v.channel, err = conn.Channel(); err != nil {
			return err
		}
		return v.all(visiting)
	})
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case visiting.Err() != nil:
		err = connection.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("dead letters in queue %s: %w", topic, denied(err))
	}
	return nil
}

// A visitor goes through a queue once.
type visitor struct {
	channel *amqp.Channel
	topic   string
	visit   func(*message.Message) (remove bool, err error)
	number  int // number of the last dead letter, from 1
	left    int // dead letters behind the first, when the first was taken
}

// all visits as many dead letters as the queue had when the first one was taken, and gives
// back the ones that were not removed.
func (v *visitor) all(ctx context.Context) (err error) {
	// A queue reports its number of messages before it has requeued what other
	// consumers have given back (in rabbit_amqqueue_process.erl, 3.10, "stat" goes first). When the first
	// message is taken from it, it has requeued them. So the number is asked for then.
	for more := true; more && v.number <= v.left && err == nil && ctx.Err() == nil; {
		more, err = v.next()
	}
	switch {
	case v.number == 0 && code(err) == amqp.NotFound: // no dead letter was published yet
		return nil
	case v.channel.IsClosed():
		return err
	}
	// The nack requeues the remaining messages. The answer to Close says that the server has
	// seen it, and the acks before it.
	return errors.Join(err, v.channel.Nack(0, true, true), v.channel.Close())
}

// next visits one dead letter. It returns false if there is none.
func (v *visitor) next() (more bool, err error) {
	in, ok, err := v.channel.Get(v.topic, false)
	if err != nil || !ok {
		return false, err
	}
	deadLetter := unmarshal(v.topic, &in)
	if v.number++; v.number == 1 {
		queue, err := v.channel.QueueDeclarePassive(v.topic, true, false, false, false, nil)
		if err != nil {
			return false, err
		}
		v.left = queue.Messages
	}
	deadLetter.Metadata[broker.MetaPosition] = strconv.Itoa(v.number)
	remove, err := v.visit(deadLetter)
	if remove && err == nil {
		err = v.channel.Ack(in.DeliveryTag, false)
	}
	return true, err
}
