package nats

import (
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
	"github.com/event-service-agent/timer-service/broker/inflight"
)

var (
	// ErrNotConnected says that there is no connection now; one is being made.
	ErrNotConnected = errors.New("not connected with NATS")
	// ErrClosed says that the broker's Run has ended, or the subscriber was closed.
	ErrClosed = errors.New("closed")
)

// Options tune a [Broker]. The zero value is ready to use with a server on this
// machine. Of URL, Server and Conn set one at most.
type Options struct {
	URL    string       // servers, with commas between them; default nats://127.0.0.1:4222
	Server *Embedded    // server in this process
	Conn   *natsgo.Conn // connection of the host, which keeps and closes it

	Security Security        // who we are; default nobody, without TLS unless the URL or the server asks for it
	Connect  []natsgo.Option // more options for the connection; they win over our own
	Name     string          // name of the connection, for operators; default "timer-service"
	Inbox    string          // what subjects for answers begin with; default "_INBOX_" and the Name; a Conn has its own
	Domain   string          // JetStream domain that the stream is in; default that of the server

	Routing  broker.Routing // default [DefaultRouting]
	Stream   string         // stream that holds all topics; default "svc"
	MaxBytes int64          // size limit of the stream, if it has to be created; default 8 GiB
	MaxAge   time.Duration  // how long the stream keeps messages, if it has to be created; default 3 days
	MinAge   time.Duration  // how long a stream must keep messages; default 1 day
	Prefix   string         // put before the names of durable consumers
	Role     string         // whose consumer [Broker.Provision] makes; default "timer-service"
	Verify   bool           // create and change nothing: wait until somebody else has
	Client   bool           // use the stream as it is: do not create it, do not verify it
}

// Limits.
const (
	defaultMaxBytes = 8 << 30
	defaultMaxAge   = 3 * 24 * time.Hour
	defaultMinAge   = 24 * time.Hour
	defaultName     = "timer-service"
	apiTimeout      = 5 * time.Second // longest wait for an answer about streams and consumers
	readyTimeout    = time.Second     // longest wait in Ready
	minBackoff      = 50 * time.Millisecond
	maxBackoff      = 5 * time.Second
	lookKey         = time.Second      // between looks at the nkey while there is no connection
	look            = 10 * time.Second // between looks at the connection that nothing asked for
)

// DefaultRouting returns the topics of NATS.
func DefaultRouting() broker.Routing {
	return broker.Routing{
		Commands:    "timer.commands",
		Events:      "svc.{tenant}.serviceCall",
		DeadLetters: "svc.{tenant}.dlq",
		Wildcard:    "*",
	}
}

// A Broker is a connection with NATS, as [broker.Broker] asks for. Make it with
// [New] and run it once.
type Broker struct {
	opt Options
	log *slog.Logger

	kick  chan struct{}  // holds one: look at the connection and the stream
	term  *inflight.Term // of subscriptions, ends with Run
	begun atomic.Bool

	mu      sync.Mutex
	denied  error                   // what the server said last that we may not do, on this connection
	asked   map[*question]struct{}  // questions that wait for an answer
	ill     map[*subscription]error // subscriptions that have no fit consumer
	session *session                // nil while there is no connection object
	why     error                   // why not ready; nil if ready
	changed chan struct{}           // closed when session or why change
	slots   chan struct{}           // atomic batches in flight
}

// New returns a Broker. It touches no network: call [Broker.Run].
func New(opt Options, log *slog.Logger) *Broker {
	if opt.URL == "" {
		opt.URL = natsgo.DefaultURL
	}
	if opt.Name == "" {
		opt.Name = defaultName
	}
	if opt.Role == "" {
		opt.Role = defaultName
	}
	if opt.Inbox == "" {
		opt.Inbox = "_INBOX_" + token(opt.Name)
	}
	if opt.Routing == (broker.Routing{}) {
		opt.Routing = DefaultRouting()
	}
	if opt.Stream == "" {
		opt.Stream = "svc"
	}
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = defaultMaxBytes
	}
	if opt.MaxAge <= 0 {
		opt.MaxAge = defaultMaxAge
	}
	if opt.MinAge <= 0 {
		opt.MinAge = defaultMinAge
	}
	return &Broker{
		opt: opt, log: log,
		kick:    make(chan struct{}, 1),
		term:    inflight.NewTerm(),
		why:     ErrNotConnected,
		changed: make(chan struct{}),
		asked:   make(map[*question]struct{}),
		ill:     make(map[*subscription]error),
		slots:   make(chan struct{}, maxBatches),
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

// Ready returns nil while connected and provisioned, with a fit consumer for each
// subscription, after a round trip to the server.
func (b *Broker) Ready(ctx context.Context) error {
	s, why := b.state()
	if why != nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- s.conn.FlushWithContext(ctx) }() // ends with ctx, or as soon as the library lets go of its lock: see lost
	select {
	case err := <-answered:
		if err != nil {
			return errors.Join(ErrNotConnected, err)
		}
		if _, why = b.state(); why != nil { // there may have been a reconnect meanwhile
			return why
		}
		return b.illness()
	case <-ctx.Done():
		return errors.Join(ErrNotConnected, ctx.Err())
	}
}

// Now returns the time of the server, a second opinion on our own. It returns
// [errors.ErrUnsupported] if the server does not tell (before 2.10), or lives on
// our clock.
func (b *Broker) Now(ctx context.Context) (time.Time, error) {
	if b.opt.Server != nil {
		return time.Time{}, fmt.Errorf("the embedded server has no clock of its own: %w", errors.ErrUnsupported)
	}
	s, why := b.state()
	if s == nil || errors.Is(why, ErrNotConnected) {
		return time.Time{}, ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	stream, err := s.js.Stream(ctx, b.opt.Stream)
	if err != nil {
		return time.Time{}, err
	}
	if t := stream.CachedInfo().TimeStamp; !t.IsZero() {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("the server does not tell its time: %w", errors.ErrUnsupported)
}
