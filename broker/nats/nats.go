// Package nats is the driver for NATS JetStream: a server elsewhere, or one in
// this process (broker/nats/embedded).
//
//	Publish ──► atomic batch, or pipelined ──► stream ──► durable consumer ──► pull
//	                                                                            │
//	handler ◄── inflight.Window ◄── queue ◄── held, kept in progress ◄──────────┘
//	   └── ack, or nak at the end of the intake ──► consumer
//
// # Stream (stream.go, provision.go)
//
// One stream holds commands, events and dead letters. If it is absent, the driver
// creates it. The driver verifies an existing stream and changes nothing in it except
// the limits of a stream that it has created itself. It refuses a stream that could drop
// a message silently, with an error that names the setting.
//
// # Publishing (publisher.go)
//
// All messages of a call are sent at once and each waits for its own ack. With
// [Options.AtomicBatches] a call of 100 or more messages is sent in batches of 1,000, if
// the stream takes batches. If a batch is refused, perhaps because of one message, its
// messages are sent again one by one.
//
// # Subscribing (subscription.go, consume.go)
//
// Every role and topic has a durable pull consumer, which outlives the
// subscription and counts deliveries without a limit. Instances of a role share
// its messages. The server waits 5 s for an ack, and the driver notifies it which
// messages are in progress. So the messages of a killed process are redelivered within
// 5 s. A nacked message waits in the window, kept in progress, for its retry. Version 0.1.0
// let it wait at the server, which delivers messages that are left there when their time has come.
//
// # History (history.go, read.go)
//
// The stream is the log. The server knows how far commands were acked. History and dead letters are read with requests for single messages, many at a time, so
// that the server keeps no state of a reader.
//
// # Owners (owner.go)
//
// A second stream holds one message for each consumer, which names the database that
// owns it.
//
// # Connection (connect.go, denied.go)
//
// A session is one connection. When it is lost, the driver makes the next one, for ever.
// It reads its files again each time, and finds a half-open connection within 15 seconds.
// Without a connection, Publish fails at once, and subscriptions wait.
package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/broker/inflight"
	"github.com/event-service-agent/timer-service/internal/digest"
	"github.com/event-service-agent/timer-service/internal/option"
)

// Options tune a [Broker]. The zero value is ready to use with a server on this machine.
// At most one of URL and Server is set.
type Options struct {
	URL    string // servers, with commas between them; default nats://127.0.0.1:4222
	Server Server // server in this process, such as that of broker/nats/embedded

	// Security is how the client authenticates. By default it does not authenticate, and
	// it uses TLS only if the URL or the server asks for it.
	Security Security
	Connect  []natsgo.Option // more options for the connection; they win over the driver's own
	Name     string          // name of the connection, for operators; default "timer-service"
	// Inbox is the prefix of subjects for answers. It is "_INBOX_" and the Name by default,
	// and "_INBOX" without credentials at the embedded server of the service.
	Inbox string
	// AtomicBatches publishes calls of 100 messages or more in atomic batches, if the
	// stream takes them. They make a server that syncs each write about ten times as
	// fast, and any other server slower. With a Server, [Server.Syncs] turns them on, too.
	AtomicBatches bool

	Domain string // JetStream domain that the stream is in; default that of the server

	Routing  broker.Routing // default [DefaultRouting]
	Stream   string         // stream that holds all topics; default "svc"
	MaxBytes int64          // size limit of a stream that is created; default 8 GiB
	MaxAge   time.Duration  // how long a stream that is created keeps messages; default 3 days
	MinAge   time.Duration  // how long a stream must keep messages; default 1 day
	Role     string         // whose consumer [Broker.Provision] makes; default "timer-service"
	Verify   bool           // create and change nothing; wait for an administrator to do it
	Client   bool           // use the stream as it is, and neither create nor verify it
}

// A Server is a NATS server in this process.
type Server interface {
	natsgo.InProcessConnProvider
	Syncs() bool     // whether acked messages are on disk
	Capacity() int64 // how large a stream may become, in bytes
}

// Limits.
const (
	defaultMaxBytes = 8 << 30
	defaultMaxAge   = 3 * 24 * time.Hour
	defaultMinAge   = 24 * time.Hour
	defaultName     = "timer-service"
	apiTimeout      = 5 * time.Second // longest wait for an answer about streams and consumers
)

// DefaultReceipts is the usual [broker.Routing.Receipts], which is not set by default.
const DefaultReceipts = "svc.{tenant}.receipts"

// DefaultRouting returns [broker.NATSRouting].
func DefaultRouting() broker.Routing { return broker.NATSRouting() }

// A Broker is a connection with NATS, as [broker.Broker] asks for. Make it with
// [New] and run it once.
type Broker struct {
	opt Options
	log *slog.Logger

	keeper    *connection.Keeper[*session]
	term      *inflight.Term    // lifetime of the subscriptions; it ends with Run
	failures  inflight.Failures // why subscriptions get no messages, or cannot ack
	batches   chan struct{}     // a slot for each atomic batch in flight
	outages   atomic.Int64      // how often the connection was lost
	errors    *digest.Digest    // errors that the client library reports asynchronously
	obstacles *digest.Digest    // reasons why consumed messages can't be removed
	stream    streamLog
	full      atomic.Pointer[error] // why the stream takes no more, by the last lookup; or nil
	refusing  atomic.Pointer[error] // the same, by the last publish
	used      atomic.Int64          // bytes of the stream by the last lookup, and of dead letters since
	lettersTo atomic.Int64          // how full it may be for a dead letter with its body, in bytes; 0: there is no limit
	headersTo atomic.Int64          // the same for one without its body
	trimming  atomic.Bool           // consumed messages are being removed
	fitOwners sync.Map              // roles whose owner has a fit stream

	// Only the goroutine of the keeper uses these.
	peers []string // servers of the cluster that the last connection has named
	begun bool     // the stream was verified once

	mu       sync.Mutex
	open     map[*subscription]bool // subscriptions that have not ended
	requests map[*request]bool      // requests that wait for an answer
}

// New returns a Broker. It touches no network: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	opt.URL = cmp.Or(opt.URL, natsgo.DefaultURL)
	opt.Name = cmp.Or(opt.Name, defaultName)
	opt.Role = cmp.Or(opt.Role, defaultName)
	opt.Inbox = cmp.Or(opt.Inbox, "_INBOX_"+broker.CleanName(opt.Name))
	opt.Routing = cmp.Or(opt.Routing, DefaultRouting())
	opt.Stream = cmp.Or(opt.Stream, "svc")
	opt.MaxBytes = option.Positive(opt.MaxBytes, defaultMaxBytes)
	opt.MaxAge = option.Positive(opt.MaxAge, defaultMaxAge)
	opt.MinAge = option.Positive(opt.MinAge, defaultMinAge)
	b := &Broker{
		opt: opt, log: log,
		term:     inflight.NewTerm(),
		batches:  make(chan struct{}, maxBatches),
		open:     make(map[*subscription]bool),
		requests: make(map[*request]bool),
	}
	b.errors = digest.New(func(attrs ...any) { log.Warn("NATS reports an error", attrs...) })
	b.obstacles = digest.New(func(attrs ...any) {
		log.Warn("the stream is above three quarters of its limit, and no more can be removed from it", attrs...)
	})
	b.keeper = b.newKeeper()
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

// Tail returns a subscriber for messages that are published from now on.
func (b *Broker) Tail() message.Subscriber {
	return inflight.Tail{Subscriptions: inflight.NewSubscriptions(b.term), Listen: b.tail}
}

// Ready returns nil while connected and provisioned, with room in the stream and a fit
// consumer for each subscription, after a round trip to the server.
func (b *Broker) Ready(ctx context.Context) error {
	if err := b.keeper.Ready(ctx); err != nil {
		return err
	}
	if why := cmp.Or(b.full.Load(), b.refusing.Load()); why != nil {
		return *why
	}
	return b.failures.Err()
}

// Now returns the time of the server, a second source in addition to our own clock. It returns
// [errors.ErrUnsupported] if the server does not report its time (before 2.10), or runs
// in this process.
func (b *Broker) Now(ctx context.Context) (time.Time, error) {
	if b.opt.Server != nil {
		return time.Time{}, fmt.Errorf("the embedded server has no clock of its own: %w", errors.ErrUnsupported)
	}
	s, err := b.current()
	if err != nil {
		return time.Time{}, err
	}
	stream, err := b.lookUpStream(ctx, s)
	if err == nil && stream.TimeStamp.IsZero() {
		err = fmt.Errorf("the server does not return its time: %w", errors.ErrUnsupported)
	}
	return stream.TimeStamp, err
}
