// Package rabbitmq is the driver for RabbitMQ, over AMQP 0-9-1.
//
//	Publish ─► svc.direct (exchange) ─key─► queue ─► consumer ─► Window ─► handler ─► ack
//	                                                    ▲                      │ nack
//	                                          after its delay                  ▼
//	                                                    └──── queue.retry.2s … queue.retry.10m
//
// # Exchange and queues
//
// Everything is published to one direct exchange, with the topic as the routing
// key. Each topic has a durable queue of its name, which is that of the role
// [Options.Role] and of consumers of other programs; another role has a queue
// "topic.role" under the same key. The queue of a topic is declared before the first
// message is published to it, that of another role when it subscribes: a role
// gets nothing of what was published before. An exchange or a queue that exists
// is compared and never changed.
//
// # Publishing
//
// Messages are persistent and confirmed by the server, each by itself: one that
// the server does not take, or returns because no queue takes it, fails alone.
// At most 1000 are unconfirmed.
//
// # Subscribing
//
// A subscription has a connection of its own and up to 4096 messages in flight,
// in any order. Instances of a role compete for its queue. What was not acked
// when the connection breaks is delivered again. A nacked message is published to
// a retry queue of its queue before it is acked, and waits there.
//
// # Owner
//
// An empty queue beside the one of the commands has an argument that says which
// database owns them: see [Broker.Claim].
//
// # Connections
//
// One connection publishes, since the server stops reading from it when it is low
// on memory or disk. Another one declares, listens for tails and consumes the
// retry queues. Each is made again for ever, and a server that is silent for 15
// seconds is given up.
package rabbitmq

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/singleflight"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// ErrBlocked says that the server takes no messages for now, since it is low on
// memory or disk.
var ErrBlocked = fmt.Errorf("%w: blocked by RabbitMQ", broker.ErrUnavailable)

// A QueueType is how the server keeps a queue.
type QueueType string

// Queue types.
const (
	Classic QueueType = "classic" // on one node of the server
	Quorum  QueueType = "quorum"  // on several nodes, from RabbitMQ 3.10
)

// Options tune a [Broker]. The zero value is ready to use with a server on this
// machine.
type Options struct {
	URL      string // servers, separated by commas, tried in turn; default amqp://127.0.0.1:5672/, its path is the virtual host
	Username string // for URLs without a user; default "guest" if Password is empty too
	Password string // for URLs without a user
	Name     string // name of the connections, for operators; default "timer-service"

	// TLS returns the configuration for amqps URLs. It is called for each
	// connection, so that files which were replaced are read again. With a
	// certificate and neither user nor password the certificate is the identity.
	// Default: what the system trusts.
	TLS func() (*tls.Config, error)

	Routing   broker.Routing // names of queues, which are the routing keys too; default [DefaultRouting]
	Exchange  string         // direct exchange that everything is published to; default "svc.direct"
	QueueType QueueType      // of queues that do not exist yet; default Classic
	Role      string         // the role that reads the queue named as the topic; default "timer-service". Others have a queue of their own
	Verify    bool           // declare no exchange and no queue: only check that they exist
	Client    bool           // declare nothing and check nothing
}

// Limits.
const (
	defaultURL   = "amqp://127.0.0.1:5672/"
	apiTimeout   = 5 * time.Second        // longest wait for an answer about exchanges and queues
	closeTimeout = time.Second            // longest wait for a connection or channel to close
	lastAnswers  = 400 * time.Millisecond // longest wait for all answers when Run ends, which has a second
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

	servers   []server
	unfit     error                           // why the options can't work
	main      *connection.Keeper[*serverConn] // declares queues, listens for tails, consumes retry queues
	out       *connection.Keeper[*serverConn] // publishes; the server may stop reading from it
	asked     singleflight.Group              // what the server has not answered, by what it is about: one that hangs holds up no other
	channel   atomic.Pointer[confirmChannel]  // the channel of out
	known     sync.Map                        // topics whose queue exists
	declarers chan struct{}                   // holds one for each topic whose queue is being declared
	declared  func(queue string)              // called with each queue that was declared; nil but in tests
	owners    sync.Map                        // our owner, as it is kept, by its queue
	begun     atomic.Bool
	term      *inflight.Term  // of what uses the connections, ends with Run
	ending    context.Context // ends soon after the term: no answer is waited for any more
	ended     context.CancelFunc
	outages   atomic.Int64   // connections that were lost
	calls     sync.WaitGroup // waiting for an answer of the server, and get one when the connections are closed

	mu   sync.Mutex
	open map[*subscription]error // why it gets nothing, nil if it does
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
		declarers: make(chan struct{}, declarers),
		term:      inflight.NewTerm(),
		open:      make(map[*subscription]error),
	}
	b.servers, b.unfit = opt.check()
	b.ending, b.ended = pause.Outlive(b.term.Context(), 0, lastAnswers)
	b.main = b.keeper("main", b.verify, func(ctx context.Context, c *serverConn) error { return b.ask(ctx, "ping", c, b.exchange().exists) })
	probe := b.probe
	if opt.Client { // which may have no right to publish
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
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	for _, k := range []*connection.Keeper[*serverConn]{b.main, b.out} {
		go func() {
			defer stop() // of the other one
			ended <- k.Run(ctx)
		}()
	}
	err := errors.Join(<-ended, <-ended)
	b.calls.Wait()
	return err
}

// check returns the servers, or why the options can work with none.
func (opt Options) check() ([]server, error) {
	if err := opt.Routing.Validate(); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	if opt.QueueType != Classic && opt.QueueType != Quorum {
		return nil, fmt.Errorf("queue type %q: set %s or %s", opt.QueueType, Classic, Quorum)
	}
	if err := cmp.Or(checkName(opt.Exchange), checkName(opt.Routing.Subscription())); err != nil {
		return nil, err
	}
	return servers(opt.URL)
}

// Ready returns nil while both connections can be used, the server takes
// messages, the exchange and the queues exist, and every subscription gets what
// is published from now on. It asks the server.
func (b *Broker) Ready(ctx context.Context) error {
	if err := b.main.Ready(ctx); err != nil {
		return err
	}
	if err := b.out.Ready(ctx); err != nil {
		return err
	}
	return b.subscribed()
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() broker.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role}
}

// Tail returns a subscriber for what is published from now on.
func (b *Broker) Tail() message.Subscriber {
	return inflight.Tail{Subscriptions: inflight.NewSubscriptions(b.term), Listen: b.listen}
}

// Now returns [errors.ErrUnsupported]: RabbitMQ has no request for the time.
func (b *Broker) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// History returns none: a message that was acked is gone.
func (b *Broker) History() (broker.History, string) {
	return nil, "RabbitMQ keeps no message that was acked"
}

var _ broker.Broker = (*Broker)(nil)
