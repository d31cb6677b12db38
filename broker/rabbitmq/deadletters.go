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
// what it has taken. The server does the same for a connection that is gone, but when it
// likes.
const returnTimeout = time.Second

// VisitDeadLetters visits the dead letters in the queue of a tenant. It takes
// them from the queue one by one, and gives back those that are not removed when
// it ends, however it ends: they are in the queue as before, marked as delivered
// before. Meanwhile another reader sees a queue without those that were visited.
// The position of a dead letter is its number in the queue when the visit began.
// The tenant "" is possible only if all tenants share a queue.
func (b *Broker) VisitDeadLetters(
	ctx context.Context, tenant timer.TenantID, visit func(*message.Message) (remove bool, err error),
) error {
	if err := broker.ValidateVisit(tenant); err != nil {
		return err
	}
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
	err := b.connected(outliving, "dead letters", func(conn *serverConn) (err error) { // what was not removed goes back with its end
		v := visitor{routing: b.opt.Routing, topic: topic, tenant: tenant, visit: visit}
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
	routing broker.Routing
	topic   string
	tenant  timer.TenantID // "" if all
	visit   func(*message.Message) (remove bool, err error)
	number  int // of the last dead letter, from 1
	left    int // dead letters behind the first when it was taken
}

func (v *visitor) all(ctx context.Context) error {
	more, err := v.next()
	if code(err) == amqp.NotFound {
		return nil // nothing was published to it yet
	}
	// A queue reports how many it has before it requeues what others have given
	// back (in rabbit_amqqueue_process.erl, 3.10, "stat" goes first), but not before the
	// first was taken from it.
	for range v.left {
		if !more || err != nil || ctx.Err() != nil {
			break
		}
		more, err = v.next()
	}
	if v.channel.IsClosed() {
		return err
	}
	// The rest is requeued. The answer to Close says that the server has
	// seen this, and the acks before.
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
	if whose, _ := v.routing.DeadLetterOf(v.topic, deadLetter); v.tenant != "" && whose != v.tenant {
		return true, nil // in a queue that all tenants share
	}
	remove, err := v.visit(deadLetter)
	if remove && err == nil {
		err = v.channel.Ack(in.DeliveryTag, false)
	}
	return true, err
}
