package kafka

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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/inflight"
)

var (
	// ErrNotConnected says that no broker of the cluster answers now; the driver
	// goes on trying.
	ErrNotConnected = errors.New("not connected with Kafka")
	// ErrClosed says that the broker's Run has ended, or the subscriber was closed.
	ErrClosed = errors.New("closed")
)

// Options tune a [Broker]. The zero value is ready to use with a cluster on this
// machine.
type Options struct {
	URL      string      // brokers to ask first, with commas between them: kafka://host:port, kafka+ssl://host:port, host:port; default 127.0.0.1:9092
	SASL     SASL        // how to log in; default [NoSASL]
	Username string      // for SASL
	Password string      // for SASL; never printed
	TLS      *tls.Config // for kafka+ssl; nil trusts what the system trusts
	Connect  []kgo.Opt   // more options for every connection; they win over our own

	Routing    broker.Routing // default [DefaultRouting]
	Partitions int32          // of topics for commands and events, if they have to be created; default 12
	MaxAge     time.Duration  // how long those keep messages, if they have to be created; default 3 days
	Prefix     string         // put before the names of consumer groups
	Instance   string         // names this process among those of a group, for ever: when it is started again it goes on at once; empty: a new member each time
	Client     bool           // use the topics as they are: do not create them, do not verify them
	Verify     bool           // create no topics: verify those that are there, wait for those that are not
}

// Limits.
const (
	defaultPartitions = 12
	defaultMaxAge     = 3 * 24 * time.Hour
	apiTimeout        = 10 * time.Second // longest wait for an answer about topics
	readyTimeout      = time.Second      // longest wait in Ready
	minBackoff        = 50 * time.Millisecond
	maxBackoff        = 5 * time.Second
	look              = 5 * time.Second // between looks at the cluster that nothing asked for
)

// DefaultRouting returns the topics of Kafka.
func DefaultRouting() broker.Routing {
	return broker.Routing{
		Commands:    "timer.commands",
		Events:      "service.events",
		DeadLetters: "service.events.{tenant}.dlq",
		Wildcard:    anyTenant,
	}
}

// A Broker is a connection with a Kafka cluster, as [broker.Broker] asks for.
// Make it with [New] and run it once.
type Broker struct {
	opt Options
	log *slog.Logger

	kick  chan struct{} // holds one: look at the cluster
	begun atomic.Bool
	term  *inflight.Term // of subscriptions, ends with Run

	mu      sync.Mutex
	client  *kgo.Client        // publishes, and asks about topics; nil before Run and after it
	why     error              // why not ready; nil if ready
	changed chan struct{}      // closed when client or why change
	known   map[string]bool    // topics that are there
	limits  map[string]int     // bytes of the largest batch of those that were looked at
	groups  map[groupID]*group // consumers, by role and topic
}

// New returns a Broker. It touches no network: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	if opt.URL == "" {
		opt.URL = "127.0.0.1:9092"
	}
	if opt.Routing == (broker.Routing{}) {
		opt.Routing = DefaultRouting()
	}
	if opt.Partitions <= 0 {
		opt.Partitions = defaultPartitions
	}
	if opt.MaxAge <= 0 {
		opt.MaxAge = defaultMaxAge
	}
	return &Broker{
		opt: opt, log: log,
		kick:    make(chan struct{}, 1),
		term:    inflight.NewTerm(),
		why:     ErrNotConnected,
		changed: make(chan struct{}),
		known:   make(map[string]bool),
		limits:  make(map[string]int),
		groups:  make(map[groupID]*group),
	}
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() message.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role. It is a [broker.Offerer].
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role}
}

// Tail returns a subscriber for what is published from now on.
func (b *Broker) Tail() message.Subscriber {
	return &tail{Subscriptions: inflight.NewSubscriptions(b.term), broker: b}
}

// Ready returns nil while connected and provisioned, after a round trip to the
// cluster.
func (b *Broker) Ready(ctx context.Context) error {
	client, why := b.state()
	if why != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := ping(ctx, client); err != nil {
		b.check()
		return fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	_, why = b.state()
	return why
}

var (
	_ broker.Broker      = (*Broker)(nil)
	_ broker.Provisioner = (*Broker)(nil)
)
