package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/event-service-agent/timer-service/internal/pause"
)

// A link is a connection that is made again for ever.
type link struct {
	name string
	kick chan struct{} // holds one: look at what it needs again

	mu      sync.Mutex
	conn    *connection // nil while there is none
	why     error       // why it is not usable; nil if it is
	blocked string      // why the server takes no messages; "" if it does
	changed chan struct{}
}

func newLink(name string) *link {
	return &link{name: name, kick: make(chan struct{}, 1), why: ErrNotConnected, changed: make(chan struct{})}
}

// current returns the connection if it is usable, else why it is not.
func (l *link) current() (*connection, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.why != nil:
		return nil, l.why
	case !l.conn.alive():
		return nil, ErrNotConnected
	}
	return l.conn, nil
}

// usable waits until there is a usable connection. It returns nil if ctx ended
// first.
func (l *link) usable(ctx context.Context) *connection {
	for {
		l.mu.Lock()
		conn, why, changed := l.conn, l.why, l.changed
		l.mu.Unlock()
		if why == nil && conn.alive() {
			return conn
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// set changes what everyone sees. It reports whether why it is not usable is
// another reason than before.
func (l *link) set(conn *connection, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := text(l.why) != text(why)
	l.conn, l.why = conn, why
	close(l.changed)
	l.changed = make(chan struct{})
	return news
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// check has what the link needs looked at soon.
func (l *link) check() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// blockedBy returns why the server takes no messages, or "".
func (l *link) blockedBy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.blocked
}

func (l *link) setBlocked(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = reason
}

// keep connects, has up see to what the link needs, and does it again whenever
// the connection ends, until ctx is done. It returns an error only if up
// returns one that wraps errUnfit.
func (b *Broker) keep(ctx context.Context, l *link, up func(context.Context, *connection) error) error {
	defer l.set(nil, ErrClosed)
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		conn, err := b.dial(ctx, b.servers, l.name, nil)
		if err != nil {
			if l.set(nil, fmt.Errorf("%w: %w", ErrNotConnected, err)) && ctx.Err() == nil {
				b.log.WarnContext(ctx, "not connected, will retry", "part", l.name, "error", err)
			}
		} else {
			worked, err := b.use(ctx, l, conn, up)
			l.set(nil, ErrNotConnected)
			l.setBlocked("")
			conn.end()
			if errors.Is(err, errUnfit) {
				return err
			}
			if worked {
				backoff = minBackoff
			}
			if ctx.Err() == nil {
				l.set(nil, fmt.Errorf("%w: %w", ErrNotConnected, conn.why))
				b.log.WarnContext(ctx, "connection lost, will make a new one", "part", l.name, "error", conn.why)
			}
		}
		if !pause.For(ctx, backoff) {
			return nil
		}
	}
}

// use has up see to what the link needs until that works, and whenever somebody
// asks for it. It returns when the connection has ended, or ctx.
func (b *Broker) use(ctx context.Context, l *link, conn *connection, up func(context.Context, *connection) error) (worked bool, err error) {
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	retry := time.NewTimer(0)
	defer retry.Stop()
	for backoff := minBackoff; ; {
		select {
		case <-ctx.Done():
			return worked, nil
		case <-conn.gone:
			return worked, nil
		case now, ok := <-blocked:
			if !ok {
				blocked = nil // the connection is ending
				continue
			}
			l.setBlocked(now.Reason)
			if now.Active {
				b.log.WarnContext(ctx, "the server takes no messages for now", "reason", now.Reason)
			} else {
				b.log.InfoContext(ctx, "the server takes messages again")
			}
			continue
		case <-l.kick:
		case <-retry.C:
		}
		err := up(ctx, conn)
		switch {
		case errors.Is(err, errUnfit):
			l.set(nil, err)
			return worked, err
		case err != nil:
			if l.set(nil, err) && ctx.Err() == nil {
				b.log.WarnContext(ctx, "RabbitMQ is not usable, will retry", "part", l.name, "error", err)
			}
			retry.Reset(backoff)
			backoff = min(2*backoff, maxBackoff)
		default:
			if l.set(conn, nil) {
				b.log.InfoContext(ctx, "connected", "part", l.name, "server", conn.server, "version", conn.version())
			}
			worked, backoff = true, minBackoff
		}
	}
}
