package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/pause"
)

// A session is one connection object. It outlives many reconnects.
type session struct {
	conn   *natsgo.Conn
	js     jetstream.JetStream
	acks   *acks       // of what is published
	owned  bool        // whether to close it
	key    string      // public nkey that is shown to the server; may be empty
	seen   bool        // whether the stream was there when it was last looked for
	told   bool        // whether it was logged that there is no connection
	asked  bool        // whether there was no reason to log yet
	atomic atomic.Bool // whether the stream takes atomic batches
	pace   pace        // how fast it takes messages one by one
	ask    sync.Once   // of a client, which has not looked at the stream
}

// connected reports whether it makes sense to send something.
func (s *session) connected() bool { return s != nil && s.conn.IsConnected() }

// Run connects and keeps connected until ctx is done. It returns an error only
// if the options can't work, or if the stream is refused.
func (b *Broker) Run(ctx context.Context) error {
	if !b.begun.CompareAndSwap(false, true) {
		return errors.New("the broker has been run already")
	}
	defer b.end()
	if err := b.opt.Routing.Validate(); err != nil {
		return fmt.Errorf("routing: %w", err)
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		s, err := b.dial(natsgo.RetryOnFailedConnect(true))
		if errors.Is(err, errFile) {
			if b.set(nil, fmt.Errorf("%w: %w", ErrNotConnected, err)) {
				b.log.WarnContext(ctx, "not connected, will retry", "error", err)
			}
			if !pause.For(ctx, backoff) {
				return nil
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("connect with NATS: %w", withoutURL(err))
		}
		b.set(s, ErrNotConnected)
		err = b.keep(ctx, s)
		if err != nil || ctx.Err() != nil {
			b.end()
			b.finish(ctx, s)
			return err
		}
		if !s.owned {
			return errors.New("the connection of the host was closed")
		}
		b.log.WarnContext(ctx, "connection closed for good, will make a new one", "error", s.conn.LastError(), "retry_in", backoff)
		b.set(nil, ErrNotConnected)
		if !pause.For(ctx, backoff) {
			return nil
		}
	}
}

// end ends all subscriptions and waits for them.
func (b *Broker) end() {
	b.term.End()
}

// finish sends what is on its way, such as acks, and closes the connection.
func (b *Broker) finish(ctx context.Context, s *session) {
	b.set(nil, ErrClosed)
	s.acks.close()
	if s.connected() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
		defer cancel()
		_ = s.conn.FlushWithContext(ctx) // what is lost now comes again
	}
	if s.owned {
		s.conn.Close()
	}
}

// withoutURL takes the URL, which may hold a password, out of an error.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// errFile says that a file which is needed to connect is not as it should be.
var errFile = errors.New("can't connect yet")

// dial returns a session, connected or not. It fails only if no retry can help,
// or with errFile.
func (b *Broker) dial(more ...natsgo.Option) (*session, error) {
	s := &session{conn: b.opt.Conn}
	if s.conn == nil {
		secure, key, err := b.opt.Security.options()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFile, err)
		}
		options := append([]natsgo.Option{
			natsgo.Name(b.opt.Name),
			natsgo.CustomInboxPrefix(b.opt.Inbox),
			natsgo.MaxReconnects(-1),
			natsgo.ReconnectWait(250 * time.Millisecond),
			natsgo.ReconnectJitter(100*time.Millisecond, 500*time.Millisecond),
			natsgo.ReconnectBufSize(-1),   // what can't be sent now fails now: its sender has it in the outbox
			natsgo.IgnoreAuthErrorAbort(), // credentials may be mended while we run
			natsgo.PingInterval(5 * time.Second),
			natsgo.MaxPingsOutstanding(2),
			natsgo.Timeout(5 * time.Second),
			natsgo.FlusherTimeout(5 * time.Second), // a half-open connection must not hold a writer for a minute
			natsgo.ErrorHandler(b.asyncError),
		}, append(more, secure...)...)
		if b.opt.Server != nil {
			options = append(options, natsgo.InProcessServer(b.opt.Server))
		}
		conn, err := natsgo.Connect(b.opt.URL, append(options, b.opt.Connect...)...)
		if err != nil {
			return nil, err
		}
		s.conn, s.owned, s.key = conn, true, key
	}
	var err error
	if b.opt.Domain == "" {
		s.js, err = jetstream.New(s.conn, jetstream.WithDefaultTimeout(apiTimeout))
	} else {
		s.js, err = jetstream.NewWithDomain(s.conn, b.opt.Domain, jetstream.WithDefaultTimeout(apiTimeout))
	}
	s.acks = newAcks(s.conn, b.opt.Stream)
	return s, err
}

// keep provisions the stream whenever the connection is made, and tells when it
// is lost. It returns nil if ctx ended or the connection is closed for good,
// and an error if the stream is refused.
func (b *Broker) keep(ctx context.Context, s *session) error {
	status := s.conn.StatusChanged(natsgo.CONNECTED, natsgo.RECONNECTING, natsgo.DISCONNECTED, natsgo.CLOSED)
	defer s.conn.RemoveStatusListener(status)
	retry := time.NewTimer(0)
	defer retry.Stop()

	for backoff := minBackoff; ; {
		select {
		case <-ctx.Done():
			return nil
		case now := <-status:
			if now = latest(now, status); now == natsgo.RECONNECTING || now == natsgo.DISCONNECTED {
				b.lost(ctx, s)
				continue
			}
		case <-b.kick:
		case <-retry.C:
		}
		if s.conn.IsClosed() {
			return nil
		}
		wait := look
		if !s.conn.IsConnected() {
			if b.lost(ctx, s); b.opt.Security.replaced(s.key) {
				s.conn.Close()
				return nil
			}
			if s.key != "" {
				wait = lookKey
			}
		} else if err := b.provision(ctx, s); err != nil {
			if errors.Is(err, errUnfit) {
				b.set(s, err)
				return err
			}
			if b.set(s, err) && ctx.Err() == nil {
				b.log.WarnContext(ctx, "stream is not usable, will retry", "error", err)
			}
			if errors.Is(err, errGone) {
				pause.For(ctx, settle)
				s.seen = false
			}
			wait, backoff = backoff, min(2*backoff, maxBackoff)
		} else {
			b.forgive()
			if b.set(s, nil) {
				b.log.InfoContext(ctx, "connected", "server", s.conn.ConnectedServerVersion(), "stream", b.opt.Stream)
			}
			backoff, s.told, s.asked = minBackoff, false, false
		}
		retry.Reset(wait)
	}
}

// latest returns the last of the changes there are.
func latest(now natsgo.Status, status <-chan natsgo.Status) natsgo.Status {
	for {
		select {
		case now = <-status:
		default:
			return now
		}
	}
}

// lost notes that there is no connection: at once, since asking the client
// library why may take as long as it waits for an answer of the server, with its
// lock held (nats.go v1.55.0).
func (b *Broker) lost(ctx context.Context, s *session) {
	if _, why := b.state(); !errors.Is(why, ErrNotConnected) {
		b.set(s, ErrNotConnected)
	}
	err := b.opt.Security.explain(s.conn.LastError(), b.opt.URL)
	if err != nil {
		b.set(s, fmt.Errorf("%w: %w", ErrNotConnected, err))
	}
	switch {
	case s.told:
	case err == nil && !s.asked:
		s.asked = true // the reason may come a moment later
	default:
		_, why := b.state()
		b.log.WarnContext(ctx, "not connected, will retry", "error", why)
		s.told = true
	}
}

// state returns the session, which may be nil, and why it is not ready.
func (b *Broker) state() (*session, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.session, b.why
}

// set changes what everyone sees. It reports whether readiness changed.
func (b *Broker) set(s *session, why error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	same := text(b.why) == text(why)
	if same && b.session == s {
		return false
	}
	b.session, b.why = s, why
	close(b.changed)
	b.changed = make(chan struct{})
	return !same
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// usable waits until there is a session that is connected and provisioned. It
// returns nil if stop was closed, or Run is over, first.
func (b *Broker) usable(stop <-chan struct{}) *session {
	for {
		b.mu.Lock()
		s, why, changed := b.session, b.why, b.changed
		b.mu.Unlock()
		if s != nil && why == nil {
			return s
		}
		select {
		case <-changed:
		case <-stop:
			return nil
		case <-b.term.Over():
			return nil
		}
	}
}

// current returns the session, if it is connected. The client library is asked
// last: see lost.
func (b *Broker) current() (*session, error) {
	s, why := b.state()
	switch {
	case errors.Is(why, ErrNotConnected):
		return nil, why
	case s.connected():
		return s, nil
	case why == nil:
		why = ErrNotConnected
	}
	return nil, why
}

// check has the connection and the stream looked at soon.
func (b *Broker) check() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// asyncError logs what the client library has nobody to tell. Broken headers are
// news of a message, which comes all the same.
func (b *Broker) asyncError(_ *natsgo.Conn, sub *natsgo.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	if errors.Is(err, natsgo.ErrPermissionViolation) {
		b.deny(err)
	}
	level := slog.LevelWarn
	if errors.Is(err, natsgo.ErrBadHeaderMsg) {
		level = slog.LevelDebug
	}
	b.log.Log(context.Background(), level, "NATS reports an error", "subject", subject, "error", err)
}

var _ broker.Broker = (*Broker)(nil)
