package rabbitmq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
)

var (
	// ErrNotConnected says that there is no connection now; one is being made.
	ErrNotConnected = errors.New("not connected with RabbitMQ")
	// ErrBlocked says that the server takes no messages for now, since it is low
	// on memory or disk.
	ErrBlocked = errors.New("blocked by RabbitMQ")
	// ErrClosed says that the broker's Run has ended, or the subscriber was closed.
	ErrClosed = errors.New("closed")
)

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
	URL      string      // servers, with commas between them, tried in turn; default amqp://127.0.0.1:5672/, its path is the virtual host
	Username string      // for URLs without a user; default "guest" if Password is empty too
	Password string      // for URLs without a user
	TLS      *tls.Config // for amqps URLs. With a certificate and neither user nor password the certificate says who we are
	Name     string      // name of the connections, for operators; default "timer-service"

	Routing   broker.Routing // names of queues, which are the routing keys too; default [DefaultRouting]
	Exchange  string         // direct exchange that everything is published to; default "svc.direct"
	QueueType QueueType      // of queues that have to be made; default Classic
	Role      string         // the role that reads the queue named as the topic; default "timer-service". Others have a queue of their own
	Verify    bool           // make no exchange and no queue for topics: only check that they are there
	Client    bool           // use what is there: make nothing and check nothing
}

// Limits.
const (
	defaultURL   = "amqp://127.0.0.1:5672/"
	apiTimeout   = 5 * time.Second // longest wait for an answer about exchanges and queues
	readyTimeout = time.Second     // longest wait in Ready, and for a connection to close
	minBackoff   = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
)

// DefaultRouting returns the queues of RabbitMQ.
func DefaultRouting() broker.Routing {
	return broker.Routing{
		Commands:    "timer.commands",
		Events:      "svc.{tenant}.q",
		DeadLetters: "svc.{tenant}.dlq",
	}
}

// A Broker is a connection with RabbitMQ, as [broker.Broker] asks for. Make it
// with [New] and run it once.
type Broker struct {
	opt Options
	log *slog.Logger

	servers []server // set by Run
	main    *link    // declares queues, tails
	out     *link    // publishes; the server may stop reading from it
	admin   admin
	outlet  outlets
	known   known
	made    func(queue string) // told of each queue that was made or found; nil but in tests
	begun   atomic.Bool
	term    *inflight.Term // of what uses the connections, ends with Run

	mu   sync.Mutex
	asks sync.WaitGroup          // what waits for an answer, and gets one when the connections are closed
	open map[*subscription]error // why it gets nothing, nil if it does
}

// New returns a Broker. It touches no network: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	if opt.URL == "" {
		opt.URL = defaultURL
	}
	if opt.Name == "" {
		opt.Name = "timer-service"
	}
	if opt.Routing == (broker.Routing{}) {
		opt.Routing = DefaultRouting()
	}
	if opt.Exchange == "" {
		opt.Exchange = "svc.direct"
	}
	if opt.QueueType == "" {
		opt.QueueType = Classic
	}
	if opt.Role == "" {
		opt.Role = "timer-service"
	}
	return &Broker{
		opt: opt, log: log,
		main:   newLink("main"),
		out:    newLink("publisher"),
		admin:  admin{slot: make(chan struct{}, 1)},
		outlet: outlets{slot: make(chan struct{}, 1)},
		known:  known{topics: make(map[string]bool)},
		term:   inflight.NewTerm(),
		open:   make(map[*subscription]error),
	}
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() message.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role}
}

// Tail returns a subscriber for what is published from now on.
func (b *Broker) Tail() message.Subscriber {
	return &tail{Subscriptions: inflight.NewSubscriptions(b.term), broker: b}
}

// Ready returns nil while both connections stand, the server takes messages,
// the exchange and the queues are there, and every subscription gets what is
// published from now on. It asks the server.
func (b *Broker) Ready(ctx context.Context) error {
	for _, l := range []*link{b.main, b.out} {
		if _, err := l.current(); err != nil {
			return err
		}
		if reason := l.blockedBy(); reason != "" {
			return fmt.Errorf("%w: %s", ErrBlocked, reason)
		}
	}
	if err := b.waiting(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := b.ask(ctx, b.hasExchange); err != nil {
		return fmt.Errorf("ask RabbitMQ for exchange %s: %w", b.opt.Exchange, err)
	}
	_, err := b.main.current() // there may have been a reconnect meanwhile
	return err
}

// waiting says which subscription gets nothing, and why.
func (b *Broker) waiting() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s, why := range b.open {
		if why != nil {
			return fmt.Errorf("subscription of queue %s: %w", s.queue, why)
		}
	}
	return nil
}

var _ broker.Broker = (*Broker)(nil)
