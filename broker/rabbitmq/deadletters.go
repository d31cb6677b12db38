package rabbitmq

import (
	"cmp"
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
// the queue in batches, always from the first one on. When it ends, for any reason, it gives the others
// back: they are in the queue as before, marked as redelivered. Until then another
// reader does not see the visited ones. The position of a dead letter is its number in
// the queue when the visit began. The tenant "" is possible only if all tenants share a
// queue.
func (b *Broker) VisitDeadLetters(ctx context.Context, tenant timer.TenantID, _ string, visit broker.DeadLetterVisit) error {
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
	visit   broker.DeadLetterVisit
	number  int // number of the last dead letter, from 1
	left    int // dead letters behind the first, when the first was taken
}

// all visits as many dead letters as the queue had when the first one was taken, and gives
// back the ones that were not removed.
func (v *visitor) all(ctx context.Context) (err error) {
	// A queue reports its number of messages before it has requeued messages that other
	// consumers have given back (in rabbit_amqqueue_process.erl, 3.10, "stat" goes first). When the first
	// message is taken from it, it has requeued them. So the number is asked for then.
	for more := true; more && v.number <= v.left && err == nil && ctx.Err() == nil; {
		more, err = v.next(ctx)
	}
	switch {
	case v.number == 0 && code(err) == amqp.NotFound: // no dead letter was published yet
		return nil
	case v.channel.IsClosed():
		return cmp.Or(err, error(amqp.ErrClosed)) // the last removals may not have arrived
	}
	// The nack requeues the remaining messages. The answer to Close says that the server has
	// seen it, and the acks before it.
	return errors.Join(err, v.channel.Nack(0, true, true), v.channel.Close())
}

// batch is how many dead letters are visited at once. A quorum queue is sent at most 32 acks that it
// has not answered; further ones wait, and are forgotten when the channel ends (RabbitMQ 4.0.5).
const batch = 25

// next visits the next dead letters. It returns false if there are no more.
func (v *visitor) next(ctx context.Context) (more bool, err error) {
	var letters []*message.Message
	tags := make(map[*message.Message]uint64)
	for more = true; more && len(letters) < batch && v.number <= v.left && ctx.Err() == nil; {
		in, ok, err := v.channel.Get(v.topic, false)
		if more = ok; err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		if v.number++; v.number == 1 {
			queue, err := v.channel.QueueDeclarePassive(v.topic, true, false, false, false, nil)
			if err != nil {
				return false, err
			}
			v.left = queue.Messages
		}
		m := unmarshal(v.topic, &in)
		m.Metadata[broker.MetaPosition] = strconv.Itoa(v.number)
		letters, tags[m] = append(letters, m), in.DeliveryTag
	}
	if len(letters) == 0 {
		return false, ctx.Err()
	}
	removed, err := v.visit(letters)
	for _, m := range removed {
		if failed := v.channel.Ack(tags[m], false); failed != nil {
			return false, failed
		}
	}
	return more, err
}
