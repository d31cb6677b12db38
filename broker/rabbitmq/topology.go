package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/timer"
)

// errUnfit says that an exchange or a queue is there that can't be used as it is.
var errUnfit = errors.New("unfit")

// Arguments of queues, see https://www.rabbitmq.com/docs/queues.
const (
	argType   = "x-queue-type"
	argSingle = "x-single-active-consumer"
	argLimit  = "x-delivery-limit"
	argMax    = "x-max-length"
)

// A queue is what a topic or a role of it has at the server.
type queue struct {
	name string
	key  string // routing key, which is the topic
	args amqp.Table
}

// queueOf returns the queue of a role and a topic.
func (b *Broker) queueOf(role, topic string) queue {
	q := queue{name: topic, key: topic, args: amqp.Table{}}
	if role != b.opt.Role {
		q.name = ownName(topic, role)
	}
	if b.opt.QueueType != Classic { // the server's default, which others who declare the queue may not name
		q.args[argType] = string(b.opt.QueueType)
	}
	if topic == b.opt.Routing.Subscription() {
		q.args[argSingle] = true
	}
	return q
}

// required are the queues without which we are not ready.
func (b *Broker) required() []queue {
	return []queue{
		b.queueOf(b.opt.Role, b.opt.Routing.Subscription()),
		b.queueOf(b.opt.Role, b.opt.Routing.DeadLettersOf(timer.NoTenant)),
	}
}

// settle makes sure that the exchange and the required queues are there and fit.
func (b *Broker) settle(ctx context.Context, conn *connection) error {
	if b.opt.Client {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := b.askOn(ctx, conn, b.makeExchange); err != nil {
		return b.explain("exchange "+b.opt.Exchange, err)
	}
	for _, q := range b.required() {
		if err := b.makeQueue(ctx, conn, q); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) hasExchange(ch *amqp.Channel) error {
	return ch.ExchangeDeclarePassive(b.opt.Exchange, amqp.ExchangeDirect, true, false, false, false, nil)
}

func (b *Broker) declareExchange(ch *amqp.Channel) error {
	return ch.ExchangeDeclare(b.opt.Exchange, amqp.ExchangeDirect, true, false, false, false, nil)
}

// makeExchange makes the exchange, or only compares it.
func (b *Broker) makeExchange(ch *amqp.Channel) error {
	if !b.opt.Verify {
		return b.declareExchange(ch)
	}
	if err := b.hasExchange(ch); err != nil {
		return err
	}
	return ifPermitted(b.declareExchange(ch))
}

// ifPermitted forgives an error of a declaration that only compares: who may not
// change what is there can't compare it.
func ifPermitted(err error) error {
	if code(err) == amqp.AccessRefused {
		return nil
	}
	return err
}

func (q queue) exists(ch *amqp.Channel) error {
	_, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
	return err
}

// declare makes the queue if it is not there, and fails if it is there with other
// arguments. Version is the server's.
func (q queue) declare(ch *amqp.Channel, version string) error {
	args := maps.Clone(q.args)
	if args[argType] == string(Quorum) && !hasNoLimit(version) {
		args[argLimit] = int32(-1)
	}
	_, err := ch.QueueDeclare(q.name, true, false, false, false, args)
	return err
}

// hasNoLimit reports whether quorum queues of a server deliver a message for
// ever unless told otherwise. From RabbitMQ 4.0 on they drop it after the 20th
// time.
func hasNoLimit(version string) bool { return strings.HasPrefix(version, "3.") }

func (q queue) bind(ch *amqp.Channel, exchange string) error {
	return ch.QueueBind(q.name, q.key, exchange, false, nil)
}

// describe says what the queue is, for people.
func (q queue) describe(opt Options) string {
	text := fmt.Sprintf("durable, %s, bound to exchange %s under the key %s", opt.QueueType, opt.Exchange, q.key)
	if q.args[argSingle] != nil {
		text += ", single active consumer"
	}
	return text
}

// makeQueue makes a queue and binds it, or only compares it.
func (b *Broker) makeQueue(ctx context.Context, conn *connection, q queue) error {
	err := b.askOn(ctx, conn, func(ch *amqp.Channel) error {
		if b.opt.Verify {
			if err := q.exists(ch); err != nil {
				return err
			}
			return ifPermitted(q.declare(ch, conn.version()))
		}
		if err := q.declare(ch, conn.version()); err != nil {
			return err
		}
		return q.bind(ch, b.opt.Exchange)
	})
	if err == nil && b.made != nil {
		b.made(q.name)
	}
	return b.explain("queue "+q.name, err)
}

// explain says what an error of the server means for an exchange or a queue. One
// that wraps errUnfit needs a person; others may pass.
func (b *Broker) explain(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) == amqp.PreconditionFailed:
		return fmt.Errorf("%w %s: %w", errUnfit, what, err)
	case code(err) == amqp.NotFound && b.opt.Verify:
		return fmt.Errorf("%s is missing: make it, or set provision to create: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// code returns the code of an error of the server, 0 if it is none.
func code(err error) int {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return e.Code
	}
	return 0
}

// Known are the topics whose queue was there.
type known struct {
	mu     sync.Mutex
	topics map[string]bool
}

func (k *known) has(topic string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.topics[topic]
}

func (k *known) add(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.topics[topic] = true
}

func (k *known) forget(topic string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.topics, topic)
}

// ensure makes the queue of each topic that is published to for the first time.
// Whoever makes no queues relies on the server to return what has none.
func (b *Broker) ensure(ctx context.Context, topics []string) error {
	if b.opt.Client || b.opt.Verify {
		return nil
	}
	for _, topic := range topics {
		if b.known.has(topic) {
			continue
		}
		conn, err := b.main.current()
		if err != nil {
			return err
		}
		if err := b.makeQueue(ctx, conn, b.queueOf(b.opt.Role, topic)); err != nil {
			if code(err) == amqp.NotFound { // the exchange
				b.main.check()
			}
			return err
		}
		b.known.add(topic)
	}
	return nil
}

// maxName is the length of the longest topic, in bytes. Names and routing keys
// take 255.
const maxName = 200

// checkName returns a [broker.ErrRefused] unless a queue or an exchange may have
// the name.
func checkName(name string) error {
	refuse := func(why string) error {
		return fmt.Errorf("%w: name %s %s", broker.ErrRefused, timer.Quote(name), why)
	}
	switch {
	case name == "":
		return refuse("is empty")
	case len(name) > maxName:
		return refuse(fmt.Sprintf("is longer than %d bytes", maxName))
	case strings.HasPrefix(name, "amq."):
		return refuse("belongs to the server")
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return refuse("has a character that is not visible ASCII")
		}
	}
	return nil
}
