package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
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
	wholeOwner    = 80  // bytes in which the ids of an owner fit as they are
	minOwner      = 35  // bytes in which their digests do
	ownerTries    = 10  // while others claim the same queue
)

// refusedOwner is the error that names an owner, of server versions 3.8 to 4.x.
const refusedOwner = "PRECONDITION_FAILED - inequivalent arg '" + argDeadKey + "' for queue '' in vhost '': received '" + noOwner + "' but current is ''"

// An ownerQueue keeps an owner.
type ownerQueue struct {
	queue

	broker *Broker
	conn   *serverConn
	limit  int // longest text of an owner that an error has space for, besides the names of queue and virtual host
}

// ownerOf returns the queue that keeps the owner of another one.
func (b *Broker) ownerOf(owned queue, conn *serverConn) ownerQueue {
	o := ownerQueue{queue: owned, broker: b, conn: conn, limit: maxError - len(refusedOwner) - len(conn.Config.Vhost)}
	o.name = shorten(owned.name, maxOwnerQueue-len(ownerSuffix)) + ownerSuffix
	if o.limit-len(o.name) < wholeOwner {
		o.name = digest(owned.name)[:8] + ownerSuffix
	}
	o.limit -= len(o.name)
	return o
}

// text returns an owner as the queue keeps it: so short that the server cuts nothing
// off. Texts of different owners are different.
func (q ownerQueue) text(o broker.Owner) string {
	if q.limit < wholeOwner {
		o.Database = digest(o.Database)
	}
	return shorten(o.String(), q.limit)
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
	if q.limit < minOwner {
		return broker.Owner{}, fmt.Errorf("own the commands: the name of the virtual host %s is too long; use one of at most %d bytes",
			timer.Quote(conn.Config.Vhost), len(conn.Config.Vhost)+q.limit-minOwner)
	}
	text := q.text(owner)
	if known, ok := b.owners.Load(q.name); ok && q.same(known.(string), owner).Database == owner.Database {
		text = known.(string) // a declaration that changes nothing leaves no error in the server's log
	}
	for range ownerTries {
		err := q.declare(ctx, text)
		if err == nil {
			b.owners.Store(q.name, text)
			return q.same(text, owner), nil
		}
		if code(err) != amqp.PreconditionFailed {
			return broker.Owner{}, q.explain(err)
		}
		kept, err := q.read(ctx) // the error of a declaration with a whole owner has no space for another one
		if err != nil {
			return broker.Owner{}, err
		}
		is := q.same(kept, owner)
		switch {
		case kept == "": // it went away meanwhile
		case is.Database == owner.Database:
			text = kept
		case !takeover:
			return is, nil
		default:
			owner.Broker = is.Broker
			text = q.text(owner)
			if err := q.remove(ctx); err != nil {
				return broker.Owner{}, err
			}
		}
	}
	return broker.Owner{}, errors.New("other services claim the commands again and again")
}

// same returns the owner that a text is of, with all that was left out of it where that
// is the same as of another owner.
func (q ownerQueue) same(text string, as broker.Owner) broker.Owner {
	kept := broker.ParseOwner(text)
	as.Broker = kept.Broker
	if kept.Database == broker.ParseOwner(q.text(as)).Database {
		kept.Database = as.Database
	}
	if text == q.text(as) {
		return as
	}
	return kept
}

// read returns the text of the owner, empty if there is none.
func (q ownerQueue) read(ctx context.Context) (string, error) {
	err := q.on(ctx, "exists", q.exists)
	if code(err) == amqp.NotFound {
		return "", nil
	}
	if err == nil {
		err = q.declare(ctx, noOwner)
	}
	if err == nil { // the queue went away meanwhile, and now is one that only asks
		return "", q.remove(ctx)
	}
	_, text, found := strings.Cut(err.Error(), "but current is '")
	if code(err) != amqp.PreconditionFailed || !found {
		return "", q.explain(err)
	}
	if text = text[:max(0, strings.LastIndexByte(text, '\''))]; text == noOwner {
		return "", q.remove(ctx)
	}
	return text, nil
}

// declare declares the queue with an owner, which changes nothing if it has this one already.
func (q ownerQueue) declare(ctx context.Context, owner string) error {
	q.args = amqp.Table{argDeadLetter: q.broker.opt.Exchange, argDeadKey: owner}
	if q.broker.opt.QueueType != Classic {
		q.args[argType] = string(q.broker.opt.QueueType)
	}
	err := q.on(ctx, "declare "+owner, func(ch *amqp.Channel) error { return q.queue.declare(ch, q.conn.version()) })
	if err == nil && q.broker.declared != nil {
		q.broker.declared(q.name)
	}
	return err
}

// remove removes the queue, and the owner with it.
func (q ownerQueue) remove(ctx context.Context) error {
	return q.explain(q.on(ctx, "delete", func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(q.name, false, false, false)
		return err
	}))
}

// on has f ask the server.
func (q ownerQueue) on(ctx context.Context, what string, f func(*amqp.Channel) error) error {
	return q.broker.ask(ctx, "owner "+q.name+" "+what, q.conn, f)
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
