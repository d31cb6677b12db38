package timertest

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store/sqlite"
)

// errKilled is the answer of the database to a process that was killed.
var errKilled = errors.New("timertest: killed")

// A process is the service from one start to its end. When it is killed it is cut
// off from its database and its broker. Its goroutines end by themselves, and have no
// effect any more.
type process struct {
	app        *app.App
	store      *sqlite.Store
	link       *link
	disconnect func() // of the broker
	cancel     context.CancelFunc
	ended      chan struct{} // closed when Run has returned
	err        error         // of Run; valid once ended is closed
	killed     chan struct{} // closed when it is killed
	stopped    bool
}

// launch opens the database, connects with the broker, and runs an app on them.
func (s *Service) launch() (*process, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	p := &process{cancel: cancel, ended: make(chan struct{}), killed: make(chan struct{})}
	var err error
	if p.store, err = s.openStore(ctx); err != nil {
		cancel()
		return nil, err
	}
	b, disconnect := s.server.connect()
	p.link, p.disconnect = newLink(b, s.outage, &s.open), disconnect
	log := slog.New(killableLog{s.opt.log.Handler(), p.killed})
	opt := s.opt.app
	opt.Hooks = append(slices.Clone(opt.Hooks), app.Hooks{Published: func(_ time.Time, events []*message.Message) {
		for _, m := range events {
			if !isClosed(p.killed) {
				s.events.keep(m)
			}
		}
	}})
	p.app, err = app.New(&killableStore{fault.Store{Full: s.opt.decorate(p.store), Decide: p.decide}, p.killed}, p.link, log, opt)
	if err != nil {
		cancel()
		return nil, errors.Join(err, p.close())
	}
	for _, do := range s.opt.before {
		do(p)
	}
	go func() {
		defer close(p.ended)
		p.err = p.app.Run(ctx)
	}()
	return p, nil
}

// openStore opens the database of the service.
func (s *Service) openStore(ctx context.Context) (*sqlite.Store, error) {
	if s.opt.db == nil {
		return sqlite.Open(ctx, s.path(), sqlite.Options{Durability: sqlite.Relaxed})
	}
	if err := sqlite.Migrate(ctx, s.opt.db); err != nil {
		return nil, err
	}
	return sqlite.New(s.opt.db, sqlite.Options{}), nil
}

// starts waits until commands are taken and timers fire, or the broker is down.
func (p *process) starts(limit time.Duration, o *outage) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		synctest.Wait()
		select {
		case <-p.ended:
			return errors.Join(errors.New("it ended"), p.err)
		default:
		}
		wrong := p.waits()
		if wrong == "" || o.away() && isClosed(p.app.Running()) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New(wrong)
		}
	}
}

// waits names the part that is not ready yet, "" if all are.
func (p *process) waits() string {
	if !isClosed(p.app.Running()) {
		return "it does not take commands"
	}
	if p.app.Status().Poller.Phase == poller.Sleeping {
		return ""
	}
	for _, c := range p.app.Checks(context.Background()) {
		if c.Reason != "" {
			return c.Part + ": " + c.Reason
		}
	}
	return "the poller does not rest"
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// kill ends all effects of the process, at once.
func (p *process) kill() error {
	close(p.killed)
	synctest.Wait() // until transactions at work are committed, or rolled back
	p.stopped = true
	return p.close()
}

// stop stops the process in order, or waits for the rest of one that was killed.
func (p *process) stop() error {
	p.cancel()
	<-p.ended
	if p.stopped {
		return nil
	}
	p.stopped = true
	return errors.Join(p.err, p.close())
}

// close closes the database and the broker of launch.
func (p *process) close() error {
	p.link.close()
	p.disconnect()
	return p.store.Close()
}

// decide fails all calls of the database once the process was killed.
func (p *process) decide(string) fault.Kind {
	if isClosed(p.killed) {
		return fault.Before
	}
	return fault.None
}

// A killableStore is the store of a process: the kill ends it.
type killableStore struct {
	fault.Store
	killed <-chan struct{}
}

// Watch ends the app when the process was killed, before anything is drained.
func (s *killableStore) Watch(ctx context.Context) error {
	ctx, end := until(ctx, s.killed, errKilled)
	defer end()
	if err := s.Full.Watch(ctx); err != nil || !isClosed(s.killed) {
		return err
	}
	return errKilled
}

// Transact commits nothing after the kill.
func (s *killableStore) Transact(ctx context.Context, fn func(tx *sql.Tx) error) error {
	return s.Store.Transact(ctx, func(tx *sql.Tx) error {
		err := fn(tx)
		if isClosed(s.killed) {
			return errKilled
		}
		return err
	})
}

// until returns a context that ends when a channel is closed, too, for a cause. End must be called.
func until(ctx context.Context, closed <-chan struct{}, cause error) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-closed:
			cancel(cause)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// A killableLog is the log of a process: after the kill nothing is logged.
type killableLog struct {
	slog.Handler
	killed <-chan struct{}
}

// Enabled returns false after the kill.
func (l killableLog) Enabled(ctx context.Context, level slog.Level) bool {
	return !isClosed(l.killed) && l.Handler.Enabled(ctx, level)
}

// WithAttrs returns a handler that ends with this one.
func (l killableLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return killableLog{l.Handler.WithAttrs(attrs), l.killed}
}

// WithGroup returns a handler that ends with this one.
func (l killableLog) WithGroup(name string) slog.Handler {
	return killableLog{l.Handler.WithGroup(name), l.killed}
}
