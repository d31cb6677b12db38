package rabbitmq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
)

// The owner of a queue is an argument of an empty queue beside it: the routing key
// of dead letters, of which there are none. To declare a queue is atomic, and a
// declaration with another argument is refused with an error that names the one there
// is. A message could not do that: while one looks at it, others find the queue empty.
const (
	ownerSuffix   = ".owner"
	argDeadKey    = "x-dead-letter-routing-key"
	argDeadLetter = "x-dead-letter-exchange"

	noOwner       = "?" // a declaration that only asks has this one
	maxOwnerQueue = 60
	maxError      = 255 // bytes of an error; the server cuts off the rest
	ownerTries    = 10  // while others claim the same queue
)

// refusedOwner is the error that names an owner, of server versions 3.8 to 4.x.
const refusedOwner = "PRECONDITION_FAILED - inequivalent arg '" + argDeadKey + "' for queue '' in vhost '': received '" + noOwner + "' but current is ''"

// An ownerQueue keeps an owner.
type ownerQueue struct {
	queue

	broker *Broker
	conn   *serverConn
	limit  int // longest text of an owner
}

// ownerOf returns the queue that keeps the owner of another one.
func (b *Broker) ownerOf(owned queue, conn *serverConn) ownerQueue {
	o := ownerQueue{queue: owned, broker: b, conn: conn}
	if o.name += ownerSuffix; len(o.name) > maxOwnerQueue { // an error must have space for the owner
		sum := sha256.Sum256([]byte(owned.name))
		o.name = owned.name[:maxOwnerQueue-len(ownerSuffix)-9] + "-" + hex.EncodeToString(sum[:4]) + ownerSuffix
	}
	o.limit = maxError - len(refusedOwner) - len(o.name) - len(conn.Config.Vhost)
	return o
}

// Claim keeps the owner of the queue from which a role takes commands.
func (b *Broker) Claim(ctx context.Context, role string, owner broker.Owner, takeover bool) (broker.Owner, error) {
	conn, err := b.main.Current()
	if err != nil {
		return broker.Owner{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	q := b.ownerOf(b.queueOf(role, b.opt.Routing.Subscription()), conn)
	if len(owner.Database)+len(owner.Broker)+2 > q.limit {
		return broker.Owner{}, fmt.Errorf("the name of the virtual host is too long for the owner of the commands: %w", errors.ErrUnsupported)
	}
	if known, ok := b.owners.Load(q.name); ok { // a declaration that changes nothing leaves no error in the server's log
		if was := broker.ParseOwner(known.(string)); was.Database == owner.Database && q.declare(ctx, known.(string)) == nil {
			return was, nil
		}
	}
	for range ownerTries {
		kept, err := q.read(ctx)
		switch {
		case err != nil:
			return kept, err
		case kept.Database == owner.Database:
			b.owners.Store(q.name, kept.String())
			return kept, nil
		case kept.Database != "" && !takeover:
			return kept, nil
		case kept.Database != "":
			owner.Broker = kept.Broker
		}
		text := owner.String()
		text = text[:min(len(text), q.limit)]
		err = q.declare(ctx, text)
		if code(err) == amqp.PreconditionFailed && kept.Database != "" {
			if err = q.remove(ctx); err == nil {
				err = q.declare(ctx, text)
			}
		}
		switch {
		case err == nil:
			b.owners.Store(q.name, text)
			return broker.ParseOwner(text), nil
		case code(err) != amqp.PreconditionFailed: // else another one was faster
			return broker.Owner{}, q.explain(err)
		}
	}
	return broker.Owner{}, errors.New("other services claim the commands again and again")
}

// read returns the owner, of whom there is nothing if there is none.
func (q ownerQueue) read(ctx context.Context) (owner broker.Owner, err error) {
	err = q.on(ctx, q.exists)
	if code(err) == amqp.NotFound {
		return owner, nil
	}
	if err == nil {
		err = q.declare(ctx, noOwner)
	}
	if err == nil { // the queue went away meanwhile, and now is one that only asks
		return owner, q.remove(ctx)
	}
	_, text, found := strings.Cut(err.Error(), "but current is '")
	if code(err) != amqp.PreconditionFailed || !found {
		return owner, q.explain(err)
	}
	if text = text[:max(0, strings.LastIndexByte(text, '\''))]; text == noOwner {
		return owner, q.remove(ctx)
	}
	return broker.ParseOwner(text), nil
}

// declare declares the queue with an owner, which changes nothing if it has this one already.
func (q ownerQueue) declare(ctx context.Context, owner string) error {
	q.args = amqp.Table{argDeadLetter: q.broker.opt.Exchange, argDeadKey: owner}
	if q.broker.opt.QueueType != Classic {
		q.args[argType] = string(q.broker.opt.QueueType)
	}
	err := q.on(ctx, func(ch *amqp.Channel) error { return q.queue.declare(ch, q.conn.version()) })
	if err == nil && q.broker.declared != nil {
		q.broker.declared(q.name)
	}
	return err
}

// remove removes the queue, and the owner with it.
func (q ownerQueue) remove(ctx context.Context) error {
	return q.explain(q.on(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(q.name, false, false, false)
		return err
	}))
}

// on has f ask the server on the channel of the queue.
func (q ownerQueue) on(ctx context.Context, f func(*amqp.Channel) error) error {
	return q.broker.declareAlone(ctx, q.broker.channelOf(q.name), q.conn, f)
}

// explain says what an error means for the queue.
func (q ownerQueue) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == amqp.AccessRefused:
		return fmt.Errorf("own the commands: the user needs the permissions to configure and read the queue %s: %w", q.name, err)
	}
	return fmt.Errorf("own the commands: queue %s: %w", q.name, err)
}
