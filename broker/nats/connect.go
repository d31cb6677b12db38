package nats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/broker/connection"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// A session is one connection, until it is lost. The keeper makes the next one.
type session struct {
	context.Context // ends when the connection is lost

	lose    context.CancelFunc
	conn    *natsgo.Conn
	js      jetstream.JetStream
	unacked *semaphore.Weighted // messages sent and not acked
	batches atomic.Bool         // the stream takes atomic batches and they are faster
	hidden  atomic.Bool         // the server does not show the account
}

// lost reports whether the connection is lost. It does not ask the client library.
func (s *session) lost() bool { return s.Err() != nil }

// whileConnected returns a context that ends with ctx, or when the connection is lost,
// which may have happened already. Stop ends it too, and must be called.
func (s *session) whileConnected(ctx context.Context) (_ context.Context, stop func()) {
	return pause.WhileBoth(ctx, s)
}

// newKeeper returns the keeper, which connects again whenever the session is lost.
func (b *Broker) newKeeper() *connection.Keeper[*session] {
	return connection.New(connection.Options[*session]{
		Server: "NATS",
		Dial:   b.dial,
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
	defer b.obstacles.Flush()
	return b.keeper.Run(ctx)
}

// ping returns nil if the server answers. A server can lose JetStream, or all replicas of
// the stream, and answer otherwise, so the driver asks for the stream.
func (b *Broker) ping(ctx context.Context, s *session) error {
	if b.opt.Client { // a client may lack the permission to look up the stream
		return s.conn.FlushWithContext(ctx)
	}
	_, err := b.lookUpStream(ctx, s)
	return err
}

// dial connects. An error is a [connection.Fatal] if no retry can help.
func (b *Broker) dial(ctx context.Context) (*session, error) {
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, unacked: semaphore.NewWeighted(maxUnacked)}
	b.failures.Set(acksDenied, nil) // they may be permitted now
	s.Context, s.lose = context.WithCancel(context.Background())
	if s.js, err = jetstream.NewWithAPIPrefix(s.conn, strings.TrimSuffix(b.api(""), "."),
		jetstream.WithDefaultTimeout(apiTimeout),
		jetstream.WithPublishAsyncTimeout(publishTimeout),
		jetstream.WithPublishAsyncMaxPending(math.MaxInt), // unacked limits it, and heeds contexts
	); err != nil {
		return nil, connection.Fatal(err)
	}
	return s, nil
}

// connect makes a connection with the client library, which tries each server for as long
// as [natsgo.Timeout] says. If ctx is done first, connect returns its error.
func (b *Broker) connect(ctx context.Context) (*natsgo.Conn, error) {
	secure, err := b.opt.Security.options()
	if err != nil {
		return nil, err
	}
	options := append([]natsgo.Option{
		natsgo.Name(b.opt.Name),
		natsgo.CustomInboxPrefix(b.opt.Inbox),
		natsgo.NoReconnect(), // the keeper connects again, and reads the files again
		natsgo.PingInterval(5 * time.Second),
		natsgo.MaxPingsOutstanding(2),
		natsgo.Timeout(5 * time.Second),
		// The library writes a message, with all bytes that wait before it, at once. It holds its lock
		// for as long, and finds no half-open connection meanwhile.
		natsgo.FlusherTimeout(5 * time.Second),
		natsgo.ErrorHandler(b.asyncError),
	}, secure...)
	if b.opt.Server != nil {
		options = append(options, natsgo.InProcessServer(b.opt.Server))
	}
	type result struct {
		conn *natsgo.Conn
		err  error
	}
	made := make(chan result, 1)
	servers := strings.Join(append([]string{b.opt.URL}, b.peers...), ",")
	go func() { // it ends when the last server was tried
		conn, err := natsgo.Connect(servers, append(options, b.opt.Connect...)...)
		made <- result{conn, err}
	}()
	select {
	case r := <-made:
		// The URL is left out, since it may hold a password.
		if u, ok := errors.AsType[*url.Error](r.err); ok {
			return nil, connection.Fatal(fmt.Errorf("connect with NATS: %w", u.Err))
		}
		return r.conn, b.opt.Security.explain(r.err, b.opt.URL)
	case <-ctx.Done():
		go func() {
			if r := <-made; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// closeTimeout is how long the end of Run waits for the server to read acks and other
// messages that were sent, and for the client library, which holds its lock while it writes. It
// is half of what a stop allows, so that a busy machine makes no stop fail.
const closeTimeout = 500 * time.Millisecond

// closeSession flushes acks and other messages that were sent, and closes the connection.
// A goroutine makes the calls, so that closeSession returns within the time that a stop
// may take.
func closeSession(s *session) {
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	go func() { // it ends as soon as the library unlocks its lock
		defer cancel()
		if !s.lost() {
			_ = s.conn.FlushWithContext(closing) // if an ack is lost now, its message is redelivered
		}
		s.conn.Close()
	}()
	<-closing.Done()
}

// watch returns when the connection is lost, or ctx is done.
func (b *Broker) watch(ctx context.Context, s *session) error {
	lost := s.conn.StatusChanged(natsgo.RECONNECTING, natsgo.DISCONNECTED, natsgo.CLOSED)
	if s.conn.IsConnected() {
		select {
		case <-lost:
		case <-ctx.Done():
			return nil
		}
	}
	s.lose()
	b.peers = s.conn.DiscoveredServers()
	b.outages.Add(1)
	return s.conn.LastError()
}

// verifySession makes sure that the stream exists and is fit.
func (b *Broker) verifySession(ctx context.Context, s *session) error {
	ctx, end := s.whileConnected(ctx)
	defer end()
	err := b.provision(ctx, s)
	switch {
	case s.lost():
		return connection.ErrNotConnected
	case errors.Is(err, errUnfit):
		return connection.Fatal(err)
	}
	return err
}

// current returns the session while there is a connection, or an error that wraps
// [broker.ErrUnavailable].
func (b *Broker) current() (*session, error) {
	s, err := b.keeper.Current()
	if err == nil && s.lost() {
		err = connection.ErrNotConnected
	}
	return s, err
}

// asyncError logs errors that the client library can't return, equal ones once a minute.
// An error about broken headers is logged as debug only, since its message is delivered
// all the same.
func (b *Broker) asyncError(_ *natsgo.Conn, sub *natsgo.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	if errors.Is(err, natsgo.ErrPermissionViolation) {
		err = b.deny(denied(err))
	}
	if errors.Is(err, natsgo.ErrBadHeaderMsg) {
		b.log.Debug("NATS reports an error", "subject", subject, "error", err)
		return
	}
	b.errors.Note(1, []any{"subject", subject, "error", err})
}

var _ broker.Broker = (*Broker)(nil)

// Security is how a [Broker] authenticates, and how it verifies the server. Files are
// read at every connect, so that they can be replaced while the broker runs. At most one
// of Credentials, NKey, Username and Token is set; credentials in the URL win over
// Username and Token.
type Security struct {
	Credentials string // file with a JWT and its seed (.creds)
	NKey        string // file with the seed of an nkey
	Username    string // user, with a Password
	Password    string
	Token       string

	// CA is a file (PEM) with the certificates that sign the server's. If it is set,
	// nothing is sent without TLS.
	CA   string
	Cert string // file (PEM) with the certificate that is shown to the server, with a Key
	Key  string
}

// options returns the options of the connection. Its error is retried, since the file may
// be replaced.
func (s Security) options() (options []natsgo.Option, err error) {
	for _, o := range []struct {
		set    bool
		option natsgo.Option
	}{
		{s.Credentials != "", natsgo.UserCredentials(s.Credentials)},
		{s.Username != "", natsgo.UserInfo(s.Username, s.Password)},
		{s.Token != "", natsgo.Token(s.Token)},
		{s.CA != "", natsgo.RootCAs(s.CA)},
		{s.Cert != "", natsgo.ClientCert(s.Cert, s.Key)},
	} {
		if o.set {
			options = append(options, o.option)
		}
	}
	if s.NKey == "" {
		return options, nil
	}
	key, err := natsgo.NkeyOptionFromSeed(s.NKey)
	if err != nil {
		return nil, fmt.Errorf("nkey in %s: %w", s.NKey, err)
	}
	return append(options, key), nil
}

// explain adds which credentials the server refuses, without any secret. The client
// library does not say that.
func (s Security) explain(err error, url string) error {
	denied := errors.Is(err, natsgo.ErrAuthorization) || errors.Is(err, natsgo.ErrAuthExpired) ||
		errors.Is(err, natsgo.ErrAuthRevoked) || errors.Is(err, natsgo.ErrAccountAuthExpired)
	// A server that refuses a certificate sends an alert, or ends the connection.
	alert := err != nil && (strings.Contains(err.Error(), "remote error: tls") || strings.Contains(err.Error(), "closed by remote after TLS handshake"))
	for _, shown := range []struct {
		refused bool
		what    string
	}{
		{alert && s.Cert != "", "the certificate in " + s.Cert},
		{alert, "a client without a certificate"},
		{denied && s.Credentials != "", "the credentials in " + s.Credentials},
		{denied && s.NKey != "", "the nkey in " + s.NKey},
		{denied && strings.Contains(url, "@"), "the credentials in the URL"},
		{denied && s.Username != "", "the user name or its password"},
		{denied && s.Token != "", "the token"},
		{denied && s.Cert != "", "the certificate in " + s.Cert},
		{denied, "a client without credentials"},
	} {
		if shown.refused {
			return fmt.Errorf("the server refuses %s: %w", shown.what, err)
		}
	}
	return err
}

// Interruptions returns how often the connection was lost, and why there is none
// now.
func (b *Broker) Interruptions() (int64, error) {
	n := b.outages.Load()
	_, away := b.current()
	return n, away
}

// commandsOf returns the name of the consumer of a role's commands.
func (b *Broker) commandsOf(role string) string {
	return ConsumerName(role, b.opt.Routing.Subscription())
}

// withSession calls fn with a context that ends when the connection is lost; the error is
// [connection.ErrNotConnected] then. Without a connection it returns an error at once.
func (b *Broker) withSession(ctx context.Context, fn func(context.Context, *session) error) error {
	session, err := b.current()
	if err != nil {
		return err
	}
	connected, end := session.whileConnected(ctx)
	defer end()
	err = fn(connected, session)
	if err != nil && connected.Err() != nil && ctx.Err() == nil {
		return connection.ErrNotConnected
	}
	return err
}
