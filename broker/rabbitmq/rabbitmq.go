// Package rabbitmq is the driver for RabbitMQ, over AMQP 0-9-1.
//
//	Publish ─► svc.direct.commands ─key─► queue ─► consumer ─► Window ─► handler ─► ack
//	                                                             ▲          │ nack
//	Publish ─► svc.direct ─key─► queues of events                └─ held ◄──┘
//
// # Exchange and queues (topology.go, declarations.go, provision.go)
//
// Commands are published to a topic exchange and all other messages to a direct one, with the
// topic as the routing key. So the permission to send commands does not cover events.
// Each topic has a durable queue of its name, which the role [Options.Role] and other
// programs read. Another role has a queue "topic.role" under the same key. The queue of a
// topic is declared before the first message is published to it. The queue of another
// role is declared when it subscribes, so that the role gets no message from before. The
// driver compares an existing exchange or queue, and never changes it.
//
// # Publishing (publisher.go, confirms.go)
//
// Messages are persistent, and the server confirms each by itself. If the server does
// not take a message, or returns it because no queue takes it, that message fails alone.
// At most 1000 of a call are unconfirmed.
//
// # Subscribing (subscriber.go, consumer.go, leftovers.go)
//
// A subscription has a connection of its own and up to 4096 messages in flight,
// in any order. Instances of a role compete for its queue. If the connection breaks,
// messages without an ack are redelivered. A nacked message waits in the window, unacked.
// Version 0.1.0 moved it to a retry queue. Messages in such queues are delivered, too.
//
// # Owner (owner.go)
//
// An empty queue next to the queue of the commands has an argument that names the
// database that owns them: see [Broker.Claim].
//
// # Connections (connection.go, network.go, filter.go, flow.go)
//
// One connection only publishes, since a server that is low on memory or
// disk stops reading from it. Another one declares and listens for tails. The driver reconnects
// each for ever, and gives up a connection when the server is silent for 15 seconds.
package rabbitmq

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// ErrBlocked says that the server takes no messages for now, since it is low on
// memory or disk.
var ErrBlocked = fmt.Errorf("%w: blocked by RabbitMQ", broker.ErrUnavailable)

// A QueueType says how the server keeps a queue.
type QueueType string

// Queue types.
const (
	Classic QueueType = "classic" // on one node of the server
	Quorum  QueueType = "quorum"  // on several nodes, from RabbitMQ 3.10
)

// Options tune a [Broker]. The zero value is ready to use with a server on this
// machine.
type Options struct {
	// URL lists the servers, separated by commas. They are tried in turn. The path is the
	// virtual host; default amqp://127.0.0.1:5672/.
	URL      string
	Username string // for URLs without a user; default "guest" if Password is empty too
	Password string // for URLs without a user
	Name     string // name of the connections, for operators; default "timer-service"

	// TLS returns the configuration for amqps URLs. It is called for each connection, so
	// that files which were replaced are read again. With a certificate and neither user nor
	// password the certificate is the identity. With nil the certificates of the system are
	// trusted.
	TLS func() (*tls.Config, error)

	Routing   broker.Routing // names of queues, and their routing keys; default [DefaultRouting]
	Exchange  string         // direct exchange of all messages but commands, whose topic exchange is "Exchange.commands"; default "svc.direct"
	QueueType QueueType      // type of queues that the driver declares; default Classic
	// Role is the role that reads the queue with the name of the topic; default
	// "timer-service". Other roles have queues of their own.
	Role   string
	Verify bool // declare no exchange and no queue, but check that they exist
	Client bool // declare nothing and check nothing
}

// Limits.
const (
	defaultURL   = "amqp://127.0.0.1:5672/"
	apiTimeout   = 5 * time.Second        // longest wait for an answer about exchanges and queues
	closeTimeout = time.Second            // longest wait for a connection or channel to close
	lastAnswers  = 400 * time.Millisecond // longest wait for all answers at the end of Run
)

// DefaultReceipts is the usual [broker.Routing.Receipts], which is not set by default.
const DefaultReceipts = "svc.{tenant}.receipts"

// DefaultRouting returns [broker.RabbitMQRouting].
func DefaultRouting() broker.Routing { return broker.RabbitMQRouting() }

// A Broker is a connection with RabbitMQ, as [broker.Broker] asks for. Make it
// with [New] and run it once.
type Broker struct {
	opt Options
	log *slog.Logger

	servers        []server
	unfit          error                           // why the options can't work; nil if they can
	main           *connection.Keeper[*serverConn] // declares, listens for tails
	out            *connection.Keeper[*serverConn] // publishes; the server may stop reading from it
	asked          singleflight.Group              // requests without an answer yet, by subject
	channel        atomic.Pointer[confirmChannel]  // the channel of out
	declaredTopics sync.Map                        // topics whose queue exists; the server needs far more memory for each
	declaring      chan struct{}                   // slots for topics whose queue is being declared
	onDeclare      func(queue string)              // called with each queue that is declared; for tests
	owners         sync.Map                        // text of our owner, by the queue that keeps it
	begun          atomic.Bool
	term           *inflight.Term    // lifetime of users of the connections; it ends with Run
	failures       inflight.Failures // why subscriptions get no messages
	ending         context.Context   // ends soon after the term; then no answer is waited for
	ended          context.CancelFunc
	outages        atomic.Int64   // connections that were lost
	requests       sync.WaitGroup // without an answer; closing the connections ends them
	consuming      sync.Map       // subscriptions that get messages, by their consumer
}

// New returns a Broker. It touches no network: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	opt.URL = cmp.Or(opt.URL, defaultURL)
	opt.Name = cmp.Or(opt.Name, "timer-service")
	opt.Routing = cmp.Or(opt.Routing, DefaultRouting())
	opt.Exchange = cmp.Or(opt.Exchange, "svc.direct")
	opt.QueueType = cmp.Or(opt.QueueType, Classic)
	opt.Role = cmp.Or(opt.Role, "timer-service")
	b := &Broker{
		opt: opt, log: log,
		declaring: make(chan struct{}, maxDeclaring),
		onDeclare: func(string) {},
		term:      inflight.NewTerm(),
	}
	b.servers, b.unfit = opt.check()
	b.ending, b.ended = pause.Outlive(b.term.Context(), 0, lastAnswers)
	b.main = b.keeper("main", b.verify, func(ctx context.Context, c *serverConn) error { return b.ask(ctx, "ping", c, b.exchange().exists) })
	probe := b.probe
	if opt.Client { // a client may lack the permission to publish
		probe = nil
	}
	b.out = b.keeper("publisher", func(_ context.Context, c *serverConn) error { return c.takesMessages() }, probe)
	return b
}

// Run connects and keeps connected until ctx is done. It returns an error only
// if the options can't work, or if an exchange or a queue exists that does not
// fit.
func (b *Broker) Run(ctx context.Context) error {
	if !b.begun.CompareAndSwap(false, true) {
		return errors.New("the broker has been run already")
	}
	defer b.ended()
	defer b.term.End()
	if b.unfit != nil {
		return b.unfit
	}
	keepers, ctx := errgroup.WithContext(ctx)
	for _, k := range []*connection.Keeper[*serverConn]{b.main, b.out} {
		keepers.Go(func() error { return k.Run(ctx) })
	}
	err := keepers.Wait()
	b.requests.Wait()
	return err
}

// check returns the servers, or why the options can't work with any server.
func (opt Options) check() ([]server, error) {
	if err := opt.Routing.Validate(); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	if opt.QueueType != Classic && opt.QueueType != Quorum {
		return nil, fmt.Errorf("queue type %q: set %s or %s", opt.QueueType, Classic, Quorum)
	}
	commands := opt.Routing.Subscription()
	if strings.Contains(commands, anyTenant) && !slices.Contains(strings.Split(commands, "."), anyTenant) {
		return nil, fmt.Errorf("commands topic %q: RabbitMQ compares whole words, so put dots around {tenant}", opt.Routing.Commands)
	}
	if err := cmp.Or(checkName(opt.Exchange), checkName(commands)); err != nil {
		return nil, err
	}
	return servers(opt.URL)
}

// Ready returns nil while both connections can be used, the server takes messages, the
// exchange and the queues exist, and every subscription gets new messages. It asks the
// server.
func (b *Broker) Ready(ctx context.Context) error {
	if err := b.main.Ready(ctx); err != nil {
		return err
	}
	if err := b.out.Ready(ctx); err != nil {
		return err
	}
	return b.failures.Err()
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() broker.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role}
}

// Tail returns a subscriber for messages that are published from now on.
func (b *Broker) Tail() message.Subscriber {
	return inflight.Tail{Subscriptions: inflight.NewSubscriptions(b.term), Listen: b.listen}
}

// Now returns [errors.ErrUnsupported]: RabbitMQ has no request for the time.
func (b *Broker) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// History returns nil: a message that was acked is gone.
func (b *Broker) History() (broker.History, string) {
	return nil, "RabbitMQ keeps no message that was acked"
}

var _ broker.Broker = (*Broker)(nil)
