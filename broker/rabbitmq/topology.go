package rabbitmq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/timer"
)

// errUnfit says that an exchange or a queue exists that can't be used as it is.
var errUnfit = errors.New("unfit")

// Arguments of queues, see https://www.rabbitmq.com/docs/queues.
const (
	argType  = "x-queue-type"
	argLimit = "x-delivery-limit"
	argMax   = "x-max-length"
)

// anyTenant stands for any tenant in the key of the commands' queue.
const anyTenant = "*"

// A queue is a queue of a topic, or of a role and a topic, at the server.
type queue struct {
	name      string
	key       string // routing key, which is the topic
	exchanges []string
	args      amqp.Table
}

// queueOf returns the queue of a role and a topic. The commands of all tenants share one.
func (b *Broker) queueOf(role, topic string) queue {
	if b.isCommands(topic) {
		topic = b.opt.Routing.Subscription()
	}
	q := queue{name: strings.ReplaceAll(topic, anyTenant, string(timer.NoTenant)), key: topic, exchanges: b.exchanges(topic), args: amqp.Table{}}
	if role != b.opt.Role {
		q.name = ownName(q.name, role)
	}
	// Classic is the server's default. It is not named, so that other programs that declare
	// the queue need not name it.
	if b.opt.QueueType != Classic {
		q.args[argType] = string(b.opt.QueueType)
	}
	return q
}

// isCommands reports whether a topic is one for commands.
func (b *Broker) isCommands(topic string) bool {
	_, ofTenant := b.opt.Routing.TenantOf(topic)
	return ofTenant || topic == b.opt.Routing.Commands
}

// exchanges returns the exchanges to which queues of a topic are bound. The first is
// published to. Producers may write to the exchange of the commands alone, so that they can't
// forge events. Version 0.1.0 publishes commands to the other one.
func (b *Broker) exchanges(topic string) []string {
	if b.isCommands(topic) {
		return []string{b.commandsExchange(), b.opt.Exchange}
	}
	return []string{b.opt.Exchange}
}

func (b *Broker) commandsExchange() string { return b.opt.Exchange + ".commands" }

// required returns the exchanges and the queues without which the broker is not ready.
func (b *Broker) required(conn *serverConn) []object {
	return []object{
		b.exchange(),
		exchange(b.commandsExchange(), amqp.ExchangeTopic),
		b.object(conn, b.queueOf(b.opt.Role, b.opt.Routing.Subscription())),
		b.object(conn, b.queueOf(b.opt.Role, b.opt.Routing.DeadLettersOf(timer.NoTenant))),
	}
}

// An object is an exchange or a queue that the service needs.
type object struct {
	name    string // kind and name, such as "queue timer.commands"
	detail  string // settings, for people
	exists  func(*amqp.Channel) error
	declare func(*amqp.Channel) error // creates it; fails if it exists with other arguments
	bind    func(*amqp.Channel) error
}

func (b *Broker) exchange() object { return exchange(b.opt.Exchange, amqp.ExchangeDirect) }

func exchange(name, kind string) object {
	return object{
		name: "exchange " + name, detail: kind + ", durable",
		exists: func(ch *amqp.Channel) error {
			return ch.ExchangeDeclarePassive(name, kind, true, false, false, false, nil)
		},
		declare: func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare(name, kind, true, false, false, false, nil)
		},
		bind: func(*amqp.Channel) error { return nil },
	}
}

// object returns the object of a queue, for the server of a connection.
func (b *Broker) object(conn *serverConn, q queue) object {
	return object{
		name:    "queue " + q.name,
		detail:  fmt.Sprintf("durable, %s, bound to exchange %s under the key %s", b.opt.QueueType, strings.Join(q.exchanges, " and exchange "), q.key),
		exists:  q.exists,
		declare: func(ch *amqp.Channel) error { return q.declare(ch, conn.version()) },
		bind: func(ch *amqp.Channel) error {
			b.onDeclare(q.name)
			return q.bind(ch)
		},
	}
}

// make declares the object and binds it.
func (o object) make(ch *amqp.Channel) error {
	if err := o.declare(ch); err != nil {
		return err
	}
	return o.bind(ch)
}

// compare returns an error unless the object exists and fits. A user without the
// permission to configure it learns only whether it exists.
func (o object) compare(ch *amqp.Channel) error {
	if err := o.exists(ch); err != nil {
		return err
	}
	if err := o.declare(ch); code(err) != amqp.AccessRefused {
		return err
	}
	return nil
}

// verify makes sure that the exchange and the required queues exist and fit.
func (b *Broker) verify(ctx context.Context, conn *serverConn) error {
	err := b.ensure(ctx, conn, b.required(conn)...)
	if errors.Is(err, errUnfit) {
		return connection.Fatal(err)
	}
	return err
}

// ensure makes objects; with [Options.Verify] it only compares them.
func (b *Broker) ensure(ctx context.Context, conn *serverConn, objects ...object) error {
	if b.opt.Client {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	for _, o := range objects {
		do := o.make
		if b.opt.Verify {
			do = o.compare
		}
		if err := b.ask(ctx, o.name, conn, do); err != nil {
			return b.explain(o, err)
		}
	}
	return nil
}

// bind binds the queue to its exchanges.
func (q queue) bind(ch *amqp.Channel) error {
	for _, exchange := range q.exchanges {
		if err := ch.QueueBind(q.name, q.key, exchange, false, nil); err != nil {
			return err
		}
	}
	return nil
}

func (q queue) exists(ch *amqp.Channel) error {
	_, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
	return err
}

// declare creates the queue if it does not exist, and fails if it exists with other
// arguments. Version is the server's.
func (q queue) declare(ch *amqp.Channel, version string) error {
	args := maps.Clone(q.args)
	if args[argType] == string(Quorum) && !hasNoLimit(version) {
		args[argLimit] = int32(-1)
	}
	_, err := ch.QueueDeclare(q.name, true, false, false, false, args)
	return err
}

// hasNoLimit reports whether quorum queues of a server redeliver a message for ever by
// default. From RabbitMQ 4.0 on they drop it after 20 deliveries.
func hasNoLimit(version string) bool { return strings.HasPrefix(version, "3.") }

// ensureQueues declares queues and binds them; with [Options.Verify] it only compares them.
func (b *Broker) ensureQueues(ctx context.Context, queues ...queue) error {
	conn, err := b.main.Current()
	if err != nil {
		return err
	}
	var objects []object
	for _, q := range queues {
		objects = append(objects, b.object(conn, q))
	}
	if err = b.ensure(ctx, conn, objects...); code(err) == amqp.NotFound { // the exchange is missing
		b.main.Recheck()
	}
	return err
}

// explain adds advice to an error about an exchange or a queue. An error that wraps
// errUnfit needs an operator; others may pass.
func (b *Broker) explain(o object, err error) error {
	switch {
	case code(err) == amqp.PreconditionFailed:
		return fmt.Errorf("%w %s: %w", errUnfit, o.name, err)
	case code(err) == amqp.NotFound && b.opt.Verify:
		return fmt.Errorf("%s is missing: make it, or set provision to create: %w", o.name, err)
	}
	return fmt.Errorf("%s: %w", o.name, err)
}

// code returns the code of an error of the server, 0 for any other error.
func code(err error) int {
	if e, ok := errors.AsType[*amqp.Error](err); ok {
		return e.Code
	}
	return 0
}

// denied wraps an error of the server about a missing permission in [broker.ErrDenied].
func denied(err error) error {
	if code(err) == amqp.AccessRefused {
		return fmt.Errorf("%w: %w", broker.ErrDenied, err)
	}
	return err
}

// maxName is the length of the longest topic, in bytes. Names and routing keys may have
// 255.
const maxName = 200

// checkName returns a [broker.ErrRefused] unless a queue or an exchange may have
// the name.
func checkName(name string) error { return broker.CheckName("name", name, maxName, "amq.") }

// maxRole is the most bytes of a role in a name that people can read; a hash follows.
const maxRole = 40

// ownName returns the name of the queue of a role and a topic. It is stable, since the
// queue outlives the service.
func ownName(topic, role string) string {
	clean := broker.CleanName(role)
	if clean == role && role != "" && len(role) <= maxRole {
		return topic + "." + role
	}
	// Without the digest two roles could share a queue.
	return topic + "." + clean[:min(len(clean), maxRole)] + "-" + digest(role)[:8]
}

// shorten returns text with at most most bytes. Different texts stay different.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-9] + "-" + digest(text)[:8]
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
