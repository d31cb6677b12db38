package nats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// A session is one connection object of the client library, which reconnects by
// itself, for ever.
type session struct {
	conn    *natsgo.Conn
	js      jetstream.JetStream
	unacked *semaphore.Weighted   // messages sent and not acked
	owned   bool                  // whether to close it
	nkey    string                // public nkey that is shown to the server; may be empty
	link    atomic.Pointer[link]  // the connection there is, or the last one
	failed  atomic.Pointer[error] // why the last try to connect again failed
	seen    bool                  // whether the stream was there when it was last looked up
	batches atomic.Bool           // whether to use atomic batches
	ask     sync.Once             // of a client, which has not looked up the stream
}

// A link is a connection of a session, until it is lost.
type link struct {
	context.Context

	lose context.CancelFunc
}

func newLink() *link {
	ctx, lose := context.WithCancel(context.Background())
	return &link{ctx, lose}
}

// lost reports whether there is no connection now. It does not ask the client library,
// whose lock may be held for long when the connection is lost.
func (s *session) lost() bool { return s.link.Load().Err() != nil }

// whileConnected returns a context that ends with ctx, or when the connection is lost,
// which it may be already. Stop ends it too, and must be called.
func (s *session) whileConnected(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	unwatch := context.AfterFunc(s.link.Load(), cancel)
	if s.lost() {
		cancel()
	}
	return ctx, func() {
		unwatch()
		cancel()
	}
}

// newKeeper returns what keeps the session.
func (b *Broker) newKeeper() *connection.Keeper[*session] {
	return connection.New(connection.Options[*session]{
		Server: "NATS",
		Dial:   func(ctx context.Context) (*session, error) { return b.dial(ctx, natsgo.RetryOnFailedConnect(true)) },
		Watch:  b.watch,
		Verify: b.verifySession,
		Ping:   b.ping,
		Close:  closeSession,
		Drain:  b.term.End,
		Attrs: func(s *session) []any {
			return []any{"server", s.conn.ConnectedServerVersion(), "stream", b.opt.Stream}
		},
	}, b.log)
}

// Run connects and keeps connected until ctx is done. It returns an error only
// if the options can't work, or if the stream is refused.
func (b *Broker) Run(ctx context.Context) error {
	if err := b.opt.Routing.Validate(); err != nil {
		b.term.End()
		return fmt.Errorf("routing: %w", err)
	}
	defer b.errors.Flush()
	defer b.pins.Flush()
	return b.keeper.Run(ctx)
}

// ping returns nil if the server answers. It may have lost its JetStream, or all that
// could answer for the stream, and work otherwise.
func (b *Broker) ping(ctx context.Context, s *session) error {
	if b.opt.Client { // which may not ask for the stream
		return s.conn.FlushWithContext(ctx)
	}
	_, err := b.lookUpStream(ctx, s)
	return err
}

// dial returns a session, connected or not. An error is a [connection.Fatal],
// unless a file can't be read, which may be replaced, or ctx is done.
func (b *Broker) dial(ctx context.Context, more ...natsgo.Option) (*session, error) {
	s := &session{conn: b.opt.Conn, unacked: semaphore.NewWeighted(maxUnacked)}
	if s.conn == nil {
		secure, nkey, err := b.opt.Security.options()
		if err != nil {
			return nil, err
		}
		options := append([]natsgo.Option{
			natsgo.Name(b.opt.Name),
			natsgo.CustomInboxPrefix(b.opt.Inbox),
			natsgo.MaxReconnects(-1),
			natsgo.ReconnectWait(250 * time.Millisecond),
			natsgo.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
			natsgo.ReconnectBufSize(-1),   // what can't be sent now fails now: its sender has it in the outbox
			natsgo.IgnoreAuthErrorAbort(), // credentials may be corrected while we run
			natsgo.PingInterval(5 * time.Second),
			natsgo.MaxPingsOutstanding(2),
			natsgo.Timeout(5 * time.Second),
			natsgo.FlusherTimeout(5 * time.Second), // a half-open connection must not hold a writer for a minute
			natsgo.ErrorHandler(b.asyncError),
			natsgo.ReconnectErrHandler(func(_ *natsgo.Conn, err error) { s.failed.Store(&err) }),
		}, append(more, secure...)...)
		if b.opt.Server != nil {
			options = append(options, natsgo.InProcessServer(b.opt.Server))
		}
		conn, err := b.connect(ctx, append(options, b.opt.Connect...))
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, connection.Fatal(fmt.Errorf("connect with NATS: %w", b.opt.Security.explain(withoutURL(err), b.opt.URL)))
		}
		s.conn, s.owned, s.nkey = conn, true, nkey
	}
	if s.link.Store(newLink()); !s.conn.IsConnected() {
		s.link.Load().lose()
	}
	if s.conn.IsClosed() {
		return nil, connection.Fatal(errors.New("the connection of the host was closed"))
	}
	options := []jetstream.JetStreamOpt{
		jetstream.WithDefaultTimeout(apiTimeout),
		jetstream.WithPublishAsyncTimeout(publishTimeout),
		jetstream.WithPublishAsyncMaxPending(math.MaxInt), // the session has a limit of its own, which heeds contexts
	}
	var err error
	if b.opt.Domain == "" {
		s.js, err = jetstream.New(s.conn, options...)
	} else {
		s.js, err = jetstream.NewWithDomain(s.conn, b.opt.Domain, options...)
	}
	if err != nil {
		return nil, connection.Fatal(err)
	}
	return s, nil
}

// connect makes a connection of the client library, which tries each server for as long
// as [natsgo.Timeout] says. It returns the error of ctx if that is done first.
func (b *Broker) connect(ctx context.Context, options []natsgo.Option) (*natsgo.Conn, error) {
	type result struct {
		conn *natsgo.Conn
		err  error
	}
	made := make(chan result, 1)
	go func() { // ends when the last server was tried
		conn, err := natsgo.Connect(b.opt.URL, options...)
		made <- result{conn, err}
	}()
	select {
	case r := <-made:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-made; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// withoutURL takes the URL, which may hold a password, out of an error.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// flushTimeout is how long the end of Run waits for the server to read what was
// sent, such as acks. A server that does not answer must not hold up a stop.
const flushTimeout = 500 * time.Millisecond

// closeTimeout is how long it waits for the client library, which holds its lock while
// it connects.
const closeTimeout = 250 * time.Millisecond

// closeSession sends what is on its way, such as acks, and closes the connection. The
// calls are made by a goroutine that is waited for no longer than a stop may take.
func closeSession(s *session) {
	closed := make(chan struct{})
	go func() { // ends as soon as the library unlocks its lock
		defer close(closed)
		if !s.lost() {
			if !s.owned { // else it ends with the connection; to clean up may leave a goroutine that had not begun (nats.go v1.55)
				s.js.CleanupPublisher()
			}
			ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
			defer cancel()
			_ = s.conn.FlushWithContext(ctx) // what is lost now comes again
		}
		if s.owned {
			s.conn.Close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(flushTimeout + closeTimeout):
	}
}

// watch has the session verified whenever the connection is lost or made. It
// returns when the connection is closed for good, or ctx is done, whatever holds the
// lock of the client library.
func (b *Broker) watch(ctx context.Context, s *session) error {
	ended := make(chan error, 1)
	go func() { ended <- b.watchConn(ctx, s) }() // ends as soon as the library unlocks its lock
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// watchConn has the session verified whenever the connection is lost or made. It
// returns when the connection is closed for good, or ctx is done.
func (b *Broker) watchConn(ctx context.Context, s *session) error {
	status := s.conn.StatusChanged(natsgo.CONNECTED, natsgo.RECONNECTING, natsgo.DISCONNECTED, natsgo.CLOSED)
	defer s.conn.RemoveStatusListener(status)
	for {
		b.setLost(s, !s.conn.IsConnected())
		b.keeper.Recheck()
		if s.conn.IsClosed() {
			return lastError(s.conn)
		}
		select {
		case <-ctx.Done():
			return nil
		case now := <-status:
			if now != natsgo.CONNECTED {
				// At once: asking the client library may take as long as it waits for an
				// answer of the server, with its lock held (nats.go v1.55.0).
				b.setLost(s, true)
				b.keeper.Recheck()
			}
		}
	}
}

// forget ends the time in which something may come again that was lost with a
// connection.
func (b *Broker) forget() {
	if b.recent.Add(-1) > 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.open {
		s.mu.Lock()
		s.gap = false
		s.mu.Unlock()
	}
}

// setLost notes whether there is a connection now, and counts those that are lost.
func (b *Broker) setLost(s *session, lost bool) {
	switch {
	case !lost:
		if s.failed.Store(nil); s.lost() {
			s.link.Store(newLink())
		}
	case !s.lost():
		s.link.Load().lose()
		b.outages.Add(1)
		b.recent.Add(1)
		time.AfterFunc(ackWait+time.Second, b.forget) // the server takes a moment to deliver again
	}
}

// verifySession makes sure that there is a connection, and that the stream is
// there and fit.
func (b *Broker) verifySession(ctx context.Context, s *session) error {
	if s.lost() {
		if b.opt.Security.replaced(s.nkey) {
			s.conn.Close() // the library keeps the key, so that another session must be made
		}
		err := b.opt.Security.explain(lastError(s.conn), b.opt.URL)
		if failed := s.failed.Load(); err == nil && failed != nil {
			err = *failed
		}
		if err != nil {
			return fmt.Errorf("%w: %w", connection.ErrNotConnected, err)
		}
		return connection.ErrNotConnected
	}
	err := b.provision(ctx, s)
	switch {
	case errors.Is(err, errUnfit):
		return connection.Fatal(err)
	case errors.Is(err, errGone):
		pause.For(ctx, deleteTime)
		s.seen = false
	case err == nil:
		b.clearDenied()
	}
	return err
}

// lastError returns why there is no connection, nil if the client library does
// not say so at once.
func lastError(conn *natsgo.Conn) error {
	last := make(chan error, 1)
	go func() { last <- conn.LastError() }() // ends as soon as the library unlocks its lock
	select {
	case err := <-last:
		return err
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}

// current returns the session if there is a connection now, else an error that
// wraps [broker.ErrUnavailable].
func (b *Broker) current() (*session, error) {
	s, err := b.keeper.Current()
	if err == nil && s.lost() {
		err = connection.ErrNotConnected
	}
	return s, err
}

// asyncError logs what the client library can't return, equal lines once a minute. Broken headers are those
// of a message, which is delivered all the same.
func (b *Broker) asyncError(_ *natsgo.Conn, sub *natsgo.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	news := true
	if errors.Is(err, natsgo.ErrPermissionViolation) {
		news = b.deny(err)
	}
	if errors.Is(err, natsgo.ErrBadHeaderMsg) || !news {
		b.log.Debug("NATS reports an error", "subject", subject, "error", err)
		return
	}
	b.errors.Note([]any{"subject", subject, "error", err})
}

var _ broker.Broker = (*Broker)(nil)
