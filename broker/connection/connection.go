// Package connection keeps one connection with a server. It connects, verifies that
// everything that the service needs is there, reconnects whenever the connection ends,
// and returns the reason while it can't be used. It knows no kind of server.
//
//	        Dial                  Verify
//	away ──────────► connected ◄──────────► ready
//	  ▲                  │ Watch returns      │
//	  └──────────────────┴────────────────────┘
//
// It handles an absent server, a lost or half-open connection and refused credentials
// alike: it retries with a growing delay, logs each change of state once, and returns a
// reason that wraps [broker.ErrUnavailable].
package connection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/internal/pause"
)

var (
	// ErrNotConnected is the reason while there is no connection.
	ErrNotConnected = fmt.Errorf("%w: not connected", broker.ErrUnavailable)
	// ErrClosed is the reason after Run has ended.
	ErrClosed = fmt.Errorf("%w: closed", broker.ErrUnavailable)
)

// Times of a [Keeper].
const (
	recheckInterval = 50 * time.Millisecond // shortest time between two rechecks
	readyTime       = time.Second           // longest time that Ready takes
)

// Options say how to connect to a kind of server. Dial, Verify, Close and Drain are
// required.
type Options[C any] struct {
	// Dial makes one connection. Its error is retried, unless it is a [Fatal].
	Dial func(ctx context.Context) (C, error)

	// Watch returns when the connection has ended, with the reason, or when ctx is
	// done. Default: a connection never ends.
	Watch func(ctx context.Context, conn C) error

	// Verify returns nil if everything that the service needs is there. It is called after
	// Dial, again after a growing delay while it fails, then every Interval, and after
	// [Keeper.Recheck]. An error that wraps [broker.ErrUnavailable] says that the connection
	// can't be used now, and a [Fatal] ends Run. Any other error says that something is
	// missing, but that the connection can be used.
	Verify func(ctx context.Context, conn C) error

	// Ping returns nil if the server answers. Default: Ready does not ask.
	Ping func(ctx context.Context, conn C) error

	// Close closes the connection after everything that was sent before. It is called once
	// for each connection.
	Close func(conn C)

	Server   string             // name of the server in logs and errors, such as "NATS"
	Attrs    func(conn C) []any // more attributes for the log line of a ready connection; default none
	Interval time.Duration      // between two successful calls of Verify; default 5s
	Drain    func()             // called at the end of Run, before the connection closes
}

// A Keeper keeps one connection. Make it with [New] and run it once. All methods
// are safe for concurrent use.
type Keeper[C any] struct {
	opt   Options[C]
	log   *slog.Logger
	kick  chan struct{} // asks for a call of Verify soon
	begun atomic.Bool

	mu   sync.Mutex
	conn C     // the connection, unless why wraps [broker.ErrUnavailable]
	why  error // why the connection is not ready; nil if it is
}

// New returns a Keeper. It touches no network: call [Keeper.Run].
func New[C any](opt Options[C], log *slog.Logger) *Keeper[C] {
	opt.Interval = option.Positive(opt.Interval, 5*time.Second)
	if opt.Watch == nil {
		opt.Watch = func(ctx context.Context, _ C) error { <-ctx.Done(); return nil }
	}
	if opt.Attrs == nil {
		opt.Attrs = func(C) []any { return nil }
	}
	return &Keeper[C]{
		opt: opt, log: log,
		kick: make(chan struct{}, 1),
		why:  fmt.Errorf("%w with %s yet", ErrNotConnected, opt.Server),
	}
}

// Run keeps the connection until ctx is done, then calls Drain, closes the
// connection and returns nil. It returns an error only if Dial or Verify returned
// a [Fatal].
func (k *Keeper[C]) Run(ctx context.Context) error {
	if !k.begun.CompareAndSwap(false, true) {
		return errors.New("the connection was kept already")
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- k.keep(keeping) }()
	select {
	case <-ctx.Done():
		k.opt.Drain()
		stop()
		return <-ended
	case err := <-ended:
		k.opt.Drain()
		return err
	}
}

// Current returns the connection if it can be used, ready or not, or an error
// that wraps [broker.ErrUnavailable].
func (k *Keeper[C]) Current() (C, error) {
	conn, why := k.state()
	if !errors.Is(why, broker.ErrUnavailable) {
		why = nil // something is missing, and the connection can be used
	}
	return conn, why
}

// Await waits until the connection is ready and returns it. It returns an error if ctx is
// done or Run has ended first.
func (k *Keeper[C]) Await(ctx context.Context) (conn C, err error) {
	var why error
	err = pause.Until(ctx, func() (bool, error) {
		if conn, why = k.state(); errors.Is(why, ErrClosed) {
			return false, why
		}
		return why == nil, nil
	})
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w while waiting: %w", ctx.Err(), why)
	}
	return conn, err
}

// Ready returns nil while the connection is ready and the server answers, or the reason why not.
// It takes at most a second.
func (k *Keeper[C]) Ready(ctx context.Context) error {
	conn, why := k.state()
	if why != nil || k.opt.Ping == nil {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	answered := make(chan error, 1)
	// The client library may hold a lock for longer than ctx, hence the goroutine.
	go func() { answered <- k.opt.Ping(ctx, conn) }()
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		k.Recheck()
		return fmt.Errorf("%w: %s does not answer: %w", ErrNotConnected, k.opt.Server, err)
	}
	_, why = k.state() // the connection may have ended meanwhile
	return why
}

// Recheck makes the keeper call Verify soon, since something suggests that the state has
// changed.
func (k *Keeper[C]) Recheck() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// state returns the connection and why it is not ready.
func (k *Keeper[C]) state() (C, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conn, k.why
}
