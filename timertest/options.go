package timertest

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"testing"

	"github.com/event-service-agent/timer-service/app"
	"github.com/event-service-agent/timer-service/internal/fault"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

// An Option changes the service of [Start].
type Option func(*options)

type options struct {
	t        testing.TB
	app      app.Options
	log      *slog.Logger
	db       *sql.DB // of the host; nil: a file of the test
	serve    func(dir string, opt options) (server, error)
	decorate func(app.Store) fault.Full
	before   []func(*process)
	stopped  bool
	receipts bool
}

func newOptions(t testing.TB, all []Option) options {
	opt := options{
		t:        t,
		log:      logTo(t),
		serve:    serveMemory,
		decorate: func(s app.Store) fault.Full { return s },
	}
	for _, set := range all {
		if set == nil {
			t.Fatal("an Option is nil")
		}
		set(&opt)
	}
	opt.app.Role = cmp.Or(opt.app.Role, defaultRole)
	return opt
}

// logTo returns a log whose warnings and errors go to a test.
func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Options has the service run with opt, whose zero value is the default. With a Clock
// of its own it does not follow the time of the bubble.
func Options(opt app.Options) Option { return func(o *options) { o.app = opt } }

// Log has the service log to log. The default logs warnings and errors to the test.
func Log(log *slog.Logger) Option {
	return func(o *options) { o.log = log; o.require("timertest.Log", "*slog.Logger", log) }
}

// require ends the test if the argument of an option is nil.
func (o *options) require(of, what string, value any) {
	if err := option.Missing(of, what, value); err != nil {
		o.t.Fatal("start the timer service: ", err)
	}
}

// DB has the service keep its timers in db, a SQLite database of the code under test,
// which was opened in the bubble with [sqlite.DSN] and is closed by the test. It is
// migrated.
func DB(db *sql.DB) Option {
	return func(o *options) { o.db = db; o.require("timertest.DB", "*sql.DB", db) }
}

// Store has the service use the store that decorate makes of its own, at each start: one
// that is slow, or fails.
func Store(decorate func(app.Store) app.Store) Option {
	return func(o *options) {
		o.require("timertest.Store", "function", decorate)
		o.decorate = func(s app.Store) fault.Full { return decorate(s) }
	}
}

// Stopped has [Start] start the broker only. [Service.Restart] starts the service: the
// code under test was there first.
func Stopped() Option { return func(o *options) { o.stopped = true } }

// Receipts has the service publish receipts, on the usual topic of the broker.
func Receipts() Option { return func(o *options) { o.receipts = true } }

// NATS has the service use a NATS server with JetStream in this process, without a
// network, instead of a broker in memory.
func NATS() Option { return func(o *options) { o.serve = serveNATS } }

// OnDue has the events with a prefix handled in this process, see [app.Timers.OnDue],
// instead of sending events to the broker. There may be several. [Service.Fired] and [Service.Events] have those for which handle
// returned nil. It is called no more after a crash, and the context of a call that is
// at work then ends.
func OnDue(prefix string, handle func(ctx context.Context, e timer.DueTimeReached) error, opt app.OnDueOptions) Option {
	return func(o *options) {
		o.before = append(o.before, func(p *process) {
			if handle == nil {
				p.app.Timers().OnDue(prefix, nil, opt) // the start says so
				return
			}
			p.app.Timers().OnDue(prefix, func(ctx context.Context, e timer.DueTimeReached) error {
				ctx, end := until(ctx, p.killed, errKilled)
				defer end()
				if isClosed(p.killed) {
					return errKilled
				}
				return handle(ctx, e)
			}, opt)
		})
	}
}

// BeforeStart has do called with each app before it starts, at the start and at each
// restart: for [app.Timers.OnDueTx], or to hand its Timers to the code under test.
func BeforeStart(do func(*app.App)) Option {
	return func(o *options) {
		o.require("timertest.BeforeStart", "function", do)
		o.before = append(o.before, func(p *process) { do(p.app) })
	}
}
