// Package broker defines the message broker that the service needs, and how topics
// are named. Each kind of broker has a driver: broker/nats, broker/kafka, broker/rabbitmq,
// broker/gochannel. With broker/watermill the Watermill publisher and subscriber of a host
// program are a broker, too. The contract is written twice: here in words, and in broker/brokertest as
// tests that every driver passes.
package broker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/pause"
	"github.com/event-service-agent/timer-service/timer"
)

// ErrNameTenant says that the broker can't list its topics, so that dead letters are
// visited one tenant at a time.
var ErrNameTenant = errors.New("this broker can't list its topics: name a tenant")

// A Broker connects the service with one message broker. Drivers construct it
// without touching the network; all methods are safe for concurrent use.
type Broker interface {
	// Run connects and keeps connected until ctx is done, however often the broker goes
	// away. Then it closes everything that it opened and returns nil. It returns an error
	// only if no retry can help, such as for a configuration that the broker refuses.
	Run(ctx context.Context) error

	// Ready returns nil while connected and provisioned; the error says what is missing. It
	// never waits longer than a second.
	Ready(ctx context.Context) error

	// Publisher returns the only publisher. Until Run has connected, every result is an
	// [ErrUnavailable].
	Publisher() Publisher

	// Subscriber returns a subscriber for a role (a consumer group), such as
	// "timer-service". Instances of one role share its messages, the position of a role
	// outlives them, and a message without an ack is redelivered. Messages come in no order.
	// Each is delivered to one handler at a time, and thousands are in flight at once. A
	// nacked message is delivered again after [RedeliveryDelay], for ever. While it waits it is
	// unacked, keeps its in-flight slot and delays no other message. When its subscription ends
	// it goes to another one at once. Subscribe returns at once, even while the broker is down. Canceling the context of Subscribe
	// ends the intake; messages in flight can still be acked until Close.
	Subscriber(role string) message.Subscriber

	// CatchUp returns nil once the backlog of a role's commands has been read: all messages
	// that waited at the broker at the time of the call were settled, by any process. It does
	// not wait for messages that are published later. A broker without a [History] does not
	// wait either for messages that wait for their retry, or that were delivered to a process
	// that has died. This process must have subscribed the role to the commands, or be about to.
	// The error is that of ctx, or wraps [ErrUnavailable] if the broker goes away meanwhile,
	// or is an [errors.ErrUnsupported] if the broker can't tell.
	CatchUp(ctx context.Context, role string) error

	// Interruptions returns how often commands have stopped to come since Run began, because
	// the broker went away. So the caller notices an outage that has ended, however short it
	// was. Interruptions also returns why the broker is away now, an error that wraps
	// [ErrUnavailable], or nil. It asks no server, never waits, and is called often.
	Interruptions() (n int64, away error)

	// Tail returns a subscriber for messages that are published to a topic after Subscribe
	// has returned. It is for people and clients that wait for an answer. Nothing is
	// redelivered, and acks have no effect.
	Tail() message.Subscriber

	// Routing names the topics.
	Routing() Routing

	// Now returns the broker's time, or an error while the broker can't be asked. It returns
	// [errors.ErrUnsupported] if the broker does not report its time.
	Now(ctx context.Context) (time.Time, error)

	// Provision creates the objects that the routing needs and the server lacks. If dry, it
	// creates nothing. It makes its own connection: Run need not run. It
	// returns the objects that it created or would create. The error names the
	// setting if an existing object does not fit.
	Provision(ctx context.Context, dry bool) ([]Change, error)

	// History returns the messages that the broker keeps after their ack. If it keeps none,
	// kept is nil, and lacks is a sentence for people that says why.
	History() (kept History, lacks string)

	Owners
	DeadLetters
}

// A Change is one thing that a server needs before the service can work with it.
type Change struct {
	Object string // its kind and name, such as "stream svc"
	Detail string // its settings, for people
}

// DeadLetters gives access to the dead letters that wait at a broker.
type DeadLetters interface {
	// VisitDeadLetters calls visit with the dead letters of a tenant that exist when the
	// visit begins, oldest first, in batches of some hundred. Where tenants share a topic it
	// calls visit with those of the others, too: [Routing.DeadLetterOf] tells whose they are.
	// Messages that visit returns are removed for good, also if it returns an error, too. With from, the
	// [MetaSeek] of a dead letter, the visit begins with that one, or behind it if it is gone;
	// an empty from is the first one, and a driver that sets no MetaSeek ignores it. The caller
	// has validated the tenant: see [ValidateVisit]. The tenant "" means all; the error is
	// [ErrNameTenant] if the broker can't visit all. Run must be running. The visit ends at the
	// first error, of ctx, the broker or visit, and returns it. Dead letters that were not
	// removed stay.
	VisitDeadLetters(ctx context.Context, tenant timer.TenantID, from string, visit DeadLetterVisit) error
}

// A DeadLetterVisit gets a batch of dead letters and returns those to be removed.
type DeadLetterVisit func(batch []*message.Message) (remove []*message.Message, err error)

// EachDeadLetter returns a visit that calls visit with one dead letter after the other, until it
// returns an error or ctx is done. A dead letter is removed if visit returns true and no error.
func EachDeadLetter(ctx context.Context, visit func(deadLetter *message.Message) (remove bool, err error)) DeadLetterVisit {
	return func(batch []*message.Message) (remove []*message.Message, err error) {
		for _, m := range batch {
			if err := ctx.Err(); err != nil {
				return remove, err
			}
			removed, err := visit(m)
			if err != nil {
				return remove, err
			}
			if removed {
				remove = append(remove, m)
			}
		}
		return remove, nil
	}
}

// An Inspection has the facts that Inspect of a driver has found out about a server. Unknown
// fields are zero.
type Inspection struct {
	Version string        // name and version of the server
	Now     time.Time     // time by the server's clock
	Owner   Owner         // owner of the commands
	Keeps   string        // how the server keeps messages, for people
	MaxAge  time.Duration // how long it keeps them; 0 means for ever, or unknown
	Limit   int64         // its limit that is closest, mostly in bytes; 0 means no limit, or unknown
	Used    int64         // how much of Limit is used
	Limited string        // name of that limit, for people
	Oldest  time.Time     // commands that arrived since then are still there
	Foreign string        // where a message is stored among ours that the service has not published, for people; empty if none was found
	Rereads bool          // whether the server keeps messages that were acked, so that a lost database can be recovered
}

// These are the topics of the service on each broker, unless its configuration names
// others. A program that only schedules timers gets them here without importing a driver.

// NATSRouting returns the topics of NATS. The commands of all tenants share one topic;
// the other topics are per tenant.
func NATSRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "svc.{tenant}.serviceCall",
		DeadLetters: "svc.{tenant}.dlq",
		Wildcard:    "*",
	}
}

// KafkaRouting returns the topics of Kafka.
func KafkaRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.{tenant}.dlq",
		Wildcard:    "*",
	}
}

// RabbitMQRouting returns the queues of RabbitMQ.
func RabbitMQRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "svc.{tenant}.q",
		DeadLetters: "svc.{tenant}.dlq",
		Wildcard:    "*", // of commands alone
	}
}

// PlainRouting returns one topic each for commands, events and dead letters. It is for
// brokers within a process, and for any pair of a Watermill publisher and subscriber.
func PlainRouting() Routing {
	return Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.dlq",
	}
}

// AwaitReady returns nil as soon as b is ready. It is for a program that publishes right
// after its start. If ctx is done first it returns the last error of b.Ready.
func AwaitReady(ctx context.Context, b Broker) (err error) {
	_ = pause.Until(ctx, func() (bool, error) {
		err = b.Ready(ctx)
		return err == nil, nil
	})
	return err
}

// A PartitionError is the result of a message in a topic whose partitions fail
// separately, as Kafka's do, if the publisher knows the partition. Messages of different
// partitions are then retried separately.
type PartitionError struct {
	Partition string // the broker's name of it
	Err       error
}

// Error returns the text of the wrapped error.
func (e PartitionError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e PartitionError) Unwrap() error { return e.Err }

// Key returns the key of a message, "tenantId.serviceCallId", by which a partitioned
// broker selects its partition. It returns "" if the headers do not name both ids; all
// messages of the service name them.
func Key(msg *message.Message) string {
	tenant, call := msg.Metadata[envelope.HeaderTenantID], msg.Metadata[envelope.HeaderServiceCallID]
	if tenant == "" || call == "" {
		return ""
	}
	return tenant + "." + call
}

// DeadLetterOf returns the tenant of a dead letter: the tenant that its topic names, without one
// the tenant that its header names, and without both [timer.NoTenant]. It returns false if the topic
// is not a topic for dead letters.
func (r Routing) DeadLetterOf(topic string, deadLetter *message.Message) (timer.TenantID, bool) {
	t, named, matches := tenantIn(r.DeadLetters, topic)
	if !named {
		t = timer.TenantID(deadLetter.Metadata.Get(envelope.HeaderTenantID))
	}
	if t.Validate() != nil {
		t = timer.NoTenant
	}
	return t, matches
}

// tenantIn returns the tenant that a topic names, whether the template names a tenant at
// all, and whether the topic matches the template.
func tenantIn(template, topic string) (t timer.TenantID, named, matches bool) {
	before, after, named := strings.Cut(template, tenantToken)
	switch {
	case !named:
		return "", false, topic == template
	case len(topic) < len(before)+len(after) || !strings.HasPrefix(topic, before) || !strings.HasSuffix(topic, after):
		return "", true, false
	}
	return timer.TenantID(topic[len(before) : len(topic)-len(after)]), true, true
}

// ValidateVisit returns a [timer.ErrInvalid] unless t may be the tenant of a
// visit to dead letters: "" for all of them, [timer.NoTenant], or a valid one.
func ValidateVisit(t timer.TenantID) error {
	if t == "" || t == timer.NoTenant {
		return nil
	}
	return t.Validate()
}
