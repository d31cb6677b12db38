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

// An empty queue next to a queue keeps its owner, in an argument: the routing key of dead
// letters, of which there are none. A declaration is atomic. If it has another argument,
// the server refuses it with an error that names the existing one. A message could not
// keep the owner: while one process reads the message, others find the queue empty.
const (
	ownerSuffix   = ".owner"
	argDeadKey    = "x-dead-letter-routing-key"
	argDeadLetter = "x-dead-letter-exchange"

	noOwner       = "?" // owner in a declaration that only reads the existing one
	maxOwnerQueue = 60
	maxError      = 255 // bytes of an error; the server cuts off the rest
	wholeOwner    = 80  // bytes of most owners; with less space the queue has a short name
	ownerTries    = 10  // attempts while others claim the same queue
)

// refusedOwner is the error in which server versions 3.8 to 4.x name an owner.
const refusedOwner = "PRECONDITION_FAILED - inequivalent arg '" + argDeadKey + "' for queue '' in vhost '': received '" + noOwner + "' but current is ''"

// An ownerQueue is the queue that keeps an owner.
type ownerQueue struct {
	queue

	broker *Broker
	conn   *serverConn
	// limit is the longest text of an owner that fits into an error together with the names of
	// the queue and the virtual host.
	limit int
}

// ownerOf returns the queue that keeps the owner of the queue owned.
func (b *Broker) ownerOf(owned queue, conn *serverConn) ownerQueue {
	o := ownerQueue{queue: owned, broker: b, conn: conn, limit: maxError - len(refusedOwner) - len(conn.Config.Vhost)}
	o.name = shorten(owned.name, maxOwnerQueue-len(ownerSuffix)) + ownerSuffix
	if o.limit-len(o.name) < wholeOwner {
		o.name = digest(owned.name)[:8] + ownerSuffix
	}
	o.limit -= len(o.name)
	return o
}

// text returns an owner as the queue keeps it. It is short enough that the server cuts
// nothing off. It holds both ids, and as much of the name as fits.
func (q ownerQueue) text(o broker.Owner) string {
	text := o.String()
	return strings.ToValidUTF8(text[:min(len(text), q.limit)], "")
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
	if ids := len(owner.Database) + len(owner.Broker) + 2; ids > q.limit {
		return broker.Owner{}, fmt.Errorf("own the commands: the name of the virtual host %s is too long; use one of at most %d bytes",
			timer.Quote(conn.Config.Vhost), len(conn.Config.Vhost)+q.limit-ids)
	}
	text := q.text(owner)
	if kept, ok := b.owners.Load(q.name); ok && broker.ParseOwner(kept.(string)).Database == owner.Database {
		text = kept.(string) // the same text leaves no error in the server's log
	}
	for range ownerTries {
		err := q.declare(ctx, text)
		if err == nil {
			b.owners.Store(q.name, text)
			return broker.ParseOwner(text), nil
		}
		if code(err) != amqp.PreconditionFailed {
			return broker.Owner{}, q.explain(err)
		}
		// The error above has no space for two whole owners, so the other one is read alone.
		found, err := q.read(ctx)
		if err != nil {
			return broker.Owner{}, err
		}
		kept := broker.ParseOwner(found)
		switch {
		case found == "": // the owner was removed meanwhile
		case kept.Database == owner.Database:
			text = found
		case !takeover:
			return kept, nil
		default:
			owner.Broker = kept.Broker
			text = q.text(owner)
			if err := q.remove(ctx); err != nil {
				return broker.Owner{}, err
			}
		}
	}
	return broker.Owner{}, errors.New("other services claim the commands again and again")
}

// read returns the text of the owner, or "" if there is none.
func (q ownerQueue) read(ctx context.Context) (string, error) {
	err := q.on(ctx, "exists", q.exists)
	if code(err) == amqp.NotFound {
		return "", nil
	}
	if err == nil {
		err = q.declare(ctx, noOwner)
	}
	if err == nil { // the queue was removed meanwhile, and this has declared a new one
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

// declare declares the queue with an owner. If the queue has this owner already, it
// changes nothing.
func (q ownerQueue) declare(ctx context.Context, owner string) error {
	q.args = amqp.Table{argDeadLetter: q.broker.opt.Exchange, argDeadKey: owner}
	if q.broker.opt.QueueType != Classic {
		q.args[argType] = string(q.broker.opt.QueueType)
	}
	q.broker.onDeclare(q.name)
	return q.on(ctx, "declare "+owner, func(ch *amqp.Channel) error { return q.queue.declare(ch, q.conn.version()) })
}

// remove removes the queue, and the owner with it.
func (q ownerQueue) remove(ctx context.Context) error {
	return q.explain(q.on(ctx, "delete", func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(q.name, false, false, false)
		return err
	}))
}

// on calls f with a channel to the server, see [Broker.ask]. Requests of the same name
// share an answer.
func (q ownerQueue) on(ctx context.Context, request string, f func(*amqp.Channel) error) error {
	return q.broker.ask(ctx, "owner "+q.name+" "+request, q.conn, f)
}

// explain adds advice to an error about the queue.
func (q ownerQueue) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == amqp.AccessRefused:
		return fmt.Errorf("own the commands: the user needs the permissions to configure and read the queue %s: %w", q.name, err)
	}
	return fmt.Errorf("own the commands: queue %s: %w", q.name, err)
}
