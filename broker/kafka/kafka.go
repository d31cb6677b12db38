// Package kafka is the driver for Apache Kafka and other servers that speak its
// protocol. It uses franz-go.
//
// # Topics (topics.go, verify.go, wildcard.go)
//
// If the topics for commands and events are absent, the driver creates them, with 12
// partitions. It verifies existing topics and never changes them. It refuses a topic that
// could drop a message silently, with an error that names the setting. A topic for dead
// letters is created with the first dead letter of its tenant.
//
// # Publishing (publisher.go)
//
// The producer is idempotent and waits for all in-sync replicas. All messages of
// a call are sent at once, and each has its own result. A partition that takes
// nothing delays the others of a call once, by 2 seconds, or by 0.2 seconds while it
// is known to fail. If a topic has to be made and the controller does not answer, it
// delays them by up to 10 seconds. The key of a record is [broker.Key], so that all
// messages of a timer are in one partition. The key of a dead letter is its own id. Kafka
// does not deduplicate: a message that is published twice is stored twice.
//
// # Subscribing (subscriber.go, group.go, member.go, assignment.go, commit.go)
//
// Every role and topic has a consumer group, "role.topic". All subscriptions of a
// process to the topic are one member of the group. Messages are delivered in any order,
// but Kafka keeps one offset for each partition, below which everything is handled:
//
//	offset      0   1   2   3   4   5   6
//	handled     x   x   x   -   x   x   -
//	committed               3
//
// No message is committed before it is acked. Messages that are handled above the
// committed offset are redelivered after a crash. The versions of commands make that
// harmless.
//
//   - A nacked message waits for its retry in the window, unacked, and holds the committed
//     offset of its partition back. It returns to the queue when its subscription ends.
//   - When partitions go to another member, messages in flight have three seconds to be
//     acked. The rest is redelivered to that member.
//   - Version 0.1.0 published a message again for its retry, to the end of its topic. Messages
//     that it left there are delivered at once, as any other message.
//
// # Owners (owner.go)
//
// The metadata of an offset names the database that owns the commands: see
// [Broker.Claim].
//
// # History (history.go, read.go, positions.go, deadletters.go)
//
// Kafka keeps messages that were acked, and each partition is a log. positions.go says
// how logs are named and numbered. Messages above the committed offset are redelivered
// anyway, so a replay of commands ends at that offset.
//
// # Connection (connect.go, address.go)
//
// The driver connects and reconnects for ever. Without a connection Publish fails at
// once, and subscriptions wait. Certificates are read again for each connection.
package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/option"
)

// Options tune a [Broker]. The zero value is ready to use with a cluster on this
// machine.
type Options struct {
	// URL lists the brokers to ask first, with commas between them: kafka://host:port,
	// kafka+ssl://host:port, host:port; default 127.0.0.1:9092.
	URL      string
	SASL     SASL   // how to log in; default [NoSASL]
	Username string // user name for SASL
	Password string // password for SASL; never printed
	// TLS returns the configuration for kafka+ssl. It is called for each new connection.
	// With nil the certificates of the system are trusted.
	TLS     func() (*tls.Config, error)
	Connect []kgo.Opt // more options for every connection; they win over the driver's own

	Routing    broker.Routing // default [DefaultRouting]
	Partitions int32          // partitions of created topics for commands and events; default 12
	MaxAge     time.Duration  // how long such topics keep messages; default 3 days
	// Instance names this process among the members of its groups. With a name that is the
	// same after a restart, a restarted process goes on at once. If it is empty, each start
	// makes a new member.
	Instance string
	Client   bool // use the topics as they are, and neither create nor verify them
	Verify   bool // create no topics, but verify existing ones and wait for missing ones
}

// Limits.
const (
	defaultPartitions = 12
	defaultMaxAge     = 3 * 24 * time.Hour
	apiTimeout        = 10 * time.Second // longest wait for an answer about topics
	answerTimeout     = 6 * time.Second  // longest wait for an answer of any server
	checkInterval     = 5 * time.Second  // between regular checks of the cluster
	verifyInterval    = time.Minute      // between checks of the settings of topics, and of disks
)

// DefaultReceipts is the usual [broker.Routing.Receipts], which is not set by default.
const DefaultReceipts = "service.receipts"

// DefaultRouting returns [broker.KafkaRouting].
func DefaultRouting() broker.Routing { return broker.KafkaRouting() }

// A Broker is a connection with a Kafka cluster, as [broker.Broker] asks for.
// Make it with [New] and run it once.
type Broker struct {
	opt    Options
	log    *slog.Logger
	keeper *connection.Keeper[*kgo.Client] // keeps the client that publishes, and asks about topics
	term   *inflight.Term                  // lifetime of the subscriptions; it ends with Run

	failures inflight.Failures // why subscriptions get no messages
	outages  outages           // outages of all consumers, and of the cluster
	warned   sync.Once         // logs unfit topics of tenants
	disk     atomic.Value      // the fullest disk, when the topics were last verified
	named    sync.Map          // names of logs, by topic and partition, as they were found or fetched last

	mu     sync.Mutex
	topics map[string]topicState // topics that were found or made; the cluster needs far more memory for each
	groups map[groupID]*group    // consumers, by role and topic
	owned  map[string]time.Time  // when an owner was written, by role
}

// New returns a Broker. It touches no network: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	opt.URL = cmp.Or(opt.URL, "127.0.0.1:9092")
	opt.Routing = cmp.Or(opt.Routing, DefaultRouting())
	opt.Partitions = option.Positive(opt.Partitions, defaultPartitions)
	opt.MaxAge = option.Positive(opt.MaxAge, defaultMaxAge)
	b := &Broker{
		opt: opt, log: log,
		term:    inflight.NewTerm(),
		outages: outages{broken: make(map[int32]bool)},
		topics:  make(map[string]topicState),
		groups:  make(map[groupID]*group),
		owned:   make(map[string]time.Time),
	}
	b.disk.Store(disk{})
	b.keeper = newKeeper(b)
	return b
}

// Routing names the topics.
func (b *Broker) Routing() broker.Routing { return b.opt.Routing }

// Publisher returns the publisher.
func (b *Broker) Publisher() broker.Publisher { return publisher{b} }

// Subscriber returns a subscriber for a role.
func (b *Broker) Subscriber(role string) message.Subscriber {
	return &subscriber{Subscriptions: inflight.NewSubscriptions(b.term), broker: b, role: role}
}

// Now returns [errors.ErrUnsupported]: Kafka has no request for the time.
func (b *Broker) Now(context.Context) (time.Time, error) { return time.Time{}, errors.ErrUnsupported }

// Tail returns a subscriber for messages that are published from now on.
func (b *Broker) Tail() message.Subscriber {
	return inflight.Tail{Subscriptions: inflight.NewSubscriptions(b.term), Listen: b.listen}
}

// Ready returns nil while connected and provisioned, with every subscription in its group, after a
// round trip to the cluster.
func (b *Broker) Ready(ctx context.Context) error {
	if err := b.keeper.Ready(ctx); err != nil {
		return err
	}
	return b.failures.Err()
}

// clock returns the time for checks and retries.
func clock() time.Time {
	return time.Now() //nolint:forbidigo // it decides nothing about timers
}

var _ broker.Broker = (*Broker)(nil)
