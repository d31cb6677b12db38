package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// VisitDeadLetters visits the letters in the queue of a tenant. It takes them
// from the queue one by one, and gives back those that are not removed when it
// ends, however it ends: they are where they were, marked as delivered before.
// Meanwhile others who look see a queue without the letters that were visited.
// The position of a letter is its place in the queue as the visit found it. The
// tenant "" is possible only if all tenants share a queue.
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
	if _, err := b.main.current(); err != nil {
		return err
	}
	if !b.term.Begin() {
		return ErrClosed
	}
	defer b.term.Done()
	visiting, stop := b.term.Until(ctx, nil)
	defer stop()
	err := b.browse(visiting, &visitor{routing: b.opt.Routing, topic: topic, tenant: tenant, visit: visit})
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case visiting.Err() != nil:
		err = ErrClosed
	}
	if err != nil {
		return fmt.Errorf("dead letters in queue %s: %w", topic, err)
	}
	return nil
}

func (b *Broker) browse(ctx context.Context, v *visitor) error {
	conn, err := b.dial(ctx, b.servers, "dead letters", nil)
	if err != nil {
		return err
	}
	defer conn.end() // what was not removed goes back
	defer context.AfterFunc(ctx, func() { _ = conn.wire.Close() })()
	if v.channel, err = conn.Channel(); err != nil {
		return err
	}
	return v.all(ctx)
}

// A visitor goes through a queue once.
type visitor struct {
	channel *amqp.Channel
	routing broker.Routing
	topic   string
	tenant  timer.TenantID // "" if all
	visit   func(*message.Message) (remove bool, err error)
	place   int // of the last letter, from 1
	left    int // letters behind the first when it was taken
}

func (v *visitor) all(ctx context.Context) error {
	more, err := v.next()
	if code(err) == amqp.NotFound {
		return nil // nothing was published to it yet
	}
	// A queue tells how many it has before it takes back what others have given
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
	// All that is left goes back. The answer to Close says that the server has
	// seen this, and the acks before.
	return errors.Join(err, v.channel.Nack(0, true, true), v.channel.Close())
}

// next visits one letter. It returns false if there is none.
func (v *visitor) next() (more bool, err error) {
	in, ok, err := v.channel.Get(v.topic, false)
	if err != nil || !ok {
		return false, err
	}
	letter := unmarshal(v.topic, &in)
	if v.place++; v.place == 1 {
		queue, err := v.channel.QueueDeclarePassive(v.topic, true, false, false, false, nil)
		if err != nil {
			return false, err
		}
		v.left = queue.Messages
	}
	letter.Metadata[broker.MetaPosition] = strconv.Itoa(v.place)
	if whose, _ := v.routing.DeadLetterOf(v.topic, letter); v.tenant != "" && whose != v.tenant {
		return true, nil // in a queue that all tenants share
	}
	remove, err := v.visit(letter)
	if remove && err == nil {
		err = v.channel.Ack(in.DeliveryTag, false)
	}
	return true, err
}
