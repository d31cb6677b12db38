package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// OnDueOptions tune [Timers.OnDue] and [Timers.OnDueTx]. The zero value is ready to
// use.
type OnDueOptions struct {
	Concurrency int           // calls of the handler at once, in this process; default 16
	Attempts    int           // calls for an event that fail before it is parked; default any number
	MinDelay    time.Duration // about, after the first failure; it doubles with each further one; default 1s
	MaxDelay    time.Duration // longest delay after a failure; a start tries all at once; default 1h
	Timeout     time.Duration // after which the context of a call ends; default 1 min
	Expired     bool          // handle is called for timers that expired, too: the State of their events is [timer.Expired]; default these are deleted without a call
}

// OnDue has the events whose service call ids begin with a prefix, such as "order-",
// handled in this process, straight from the outbox. Of several handlers the one with the
// longest prefix gets an event; the prefix "" matches all events. Once there is a handler
// no event goes to the broker: an event that matches no handler is kept, and reported by
// [App.Checks], until the app starts with a handler for it. [App.Run] returns an error if handle
// is nil, if the prefix has a handler already, or if no service call id can begin with it. OnDue
// panics after the start.
//
// An event is deleted after handle has returned nil. After an error or a panic, or if the
// process ends before that, it is handled again: each event is handled at least once, and
// handle must expect to see it twice. With an error that wraps [timer.ErrInvalid] handle
// says that no retry can help: the event is parked with the error, and can be retried by
// [Timers.Retry]. Handle is called by many goroutines at once, in no
// order, with the trace of the event in its context. A stop waits at most
// [Options].DrainTimeout for calls at work; then their context ends.
func (t *Timers) OnDue(prefix string, handle func(ctx context.Context, e timer.DueTimeReached) error, opt OnDueOptions) {
	t.app.beforeStart()
	t.app.register(Handler{Prefix: prefix, Handle: handle, Options: opt, from: caller()})
}

// OnDueTx is as OnDue, with a transaction: the writes of handle in it are committed
// together with the deletion of the event, or not at all. On this database an event
// takes effect exactly once, however often the process ends. [Timers.ScheduleTx] and
// [Timers.CancelTx] work in it; Schedule, Cancel and Tx with the context of handle
// return an error, since they would wait for the transaction, or commit work that is
// repeated after a rollback. On SQLite no other transaction writes while handle is at work, so
// it should only read and write the database. An attempt begins with the transaction: the
// wait for it, or for the database, does not count as one.
func (t *Timers) OnDueTx(prefix string, handle func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error, opt OnDueOptions) {
	t.app.beforeStart()
	t.app.register(Handler{Prefix: prefix, HandleTx: handle, Options: opt, from: caller()})
}

// txHandlerKey is the context key of the Timers whose OnDueTx runs the handler, so that a call
// that would wait for its transaction returns an error.
type txHandlerKey struct{}

var errInHandler = errors.New("called in a handler of OnDueTx, whose transaction this call would wait for: call ScheduleTx or CancelTx with that transaction")

// errWaited says why a call may have waited in vain.
var errWaited = errors.New("if the caller has a transaction open, this call waits for its end: call ScheduleTx or CancelTx with that transaction")

// checkOutsideHandler returns an error in a handler of OnDueTx.
func (t *Timers) checkOutsideHandler(ctx context.Context) error {
	if ctx.Value(txHandlerKey{}) == t {
		return errInHandler
	}
	return nil
}

func (o OnDueOptions) withDefaults() OnDueOptions {
	o.Timeout = option.Positive(o.Timeout, defaultDueTimeout)
	return o
}

// defaultDueTimeout is that of [OnDueOptions].
const defaultDueTimeout = time.Minute

var (
	errNowhere = errors.New("events would have nowhere to go: give the app a broker, or call Timers.OnDue before the start")
	errAgain   = errors.New("an App runs once: make another one with New")
)

// beforeStart panics after the start, when no handler can be registered any more.
func (a *App) beforeStart() {
	if a.started.Load() {
		panic("app: OnDue after the start")
	}
}

// caller names the code that called the caller's caller: its function and line.
func caller() string {
	pc, file, line, _ := runtime.Caller(2)
	return fmt.Sprintf("of %s (%s:%d)", runtime.FuncForPC(pc).Name(), file, line)
}

// register registers a handler that has either function.
func (a *App) register(on Handler) {
	switch {
	case on.Handle != nil && on.HandleTx != nil:
		a.mistaken(on.from, on.Prefix, "has both Handle and HandleTx: set one of them")
	case on.HandleTx != nil:
		onDueTx(a.timers, sqlTransactor{a.store}, on.from, on.Prefix, func(ctx context.Context, tx *sql.Tx, _ Joined, e timer.DueTimeReached) error {
			return on.HandleTx(ctx, tx, e)
		}, on.Options)
	case on.Handle != nil:
		a.onDue(on.from, on.Prefix, func(ctx context.Context, e timer.DueTimeReached, _ outbox.Place) (deleted bool, err error) {
			return false, on.Handle(ctx, e)
		}, on.Options)
	default:
		a.mistaken(on.from, on.Prefix, "has no function")
	}
}

// mistaken has the start fail, since a handler can't work.
func (a *App) mistaken(from, prefix, what string) {
	a.mistakes = append(a.mistakes, fmt.Errorf("the handler %s for service calls with the prefix %q %s", from, prefix, what))
}

// onDue registers handle for events with a prefix. Its row is the place of the event, and from
// says who registers it.
func (a *App) onDue(
	from, prefix string, handle func(ctx context.Context, e timer.DueTimeReached, row outbox.Place) (deleted bool, err error), opt OnDueOptions,
) {
	other := slices.IndexFunc(a.handling, func(h outbox.Handler) bool { return h.Prefix == prefix })
	switch {
	case other >= 0:
		a.mistaken(from, prefix, "is one too many: the handler "+a.from[other]+" has that prefix already")
		return
	case prefix != "" && timer.ValidatePrefix("prefix", prefix) != nil:
		a.mistaken(from, prefix, "gets no event, since no service call id can begin so")
		return
	}
	opt = opt.withDefaults()
	a.from = append(a.from, from)
	a.opt.Counters.handlerFailed(prefix, 0) // so that the first failure is an increase
	a.handling = append(a.handling, outbox.Handler{
		Prefix: prefix, Concurrency: opt.Concurrency, Attempts: opt.Attempts, MinDelay: opt.MinDelay, MaxDelay: opt.MaxDelay, Timeout: opt.Timeout,
		Handle: func(ctx context.Context, row outbox.Row) (bool, error) {
			e, err := eventOf(row)
			if err != nil {
				return false, err
			}
			if e.State() == timer.Expired && !opt.Expired {
				return false, nil
			}
			ctx, end := a.opt.Tracing.Due(ctx, e)
			deleted, err := false, errors.New("panic") // unless it is known better
			defer func() {
				end(err)
				if _, later := errors.AsType[*timer.LaterError](err); err != nil && !later && !errors.Is(err, outbox.ErrNotBegun) {
					a.opt.Counters.handlerFailed(prefix, 1)
				}
			}()
			deleted, err = handle(ctx, e, row.Place)
			return deleted, err
		},
	})
	a.forwarder = a.newForwarder()
}

// atWork holds the apps that run in this process, by their database.
var atWork = struct {
	sync.Mutex
	apps map[string][]*App
}{apps: make(map[string][]*App)}

// enter returns an error if another app of this process runs on the database, and that belongs to
// one app, or one of the two has a handler, which would get events of the other. Only the process
// can know of both, since they may share a handle and other processes may run instances. The
// caller must call leave at the end.
func (a *App) enter(ctx context.Context) (leave func(), err error) {
	id, name, err := a.store.Identity(ctx)
	if err != nil {
		return func() {}, fmt.Errorf("store: %w", err)
	}
	place := id + " " + name
	handles := func(a *App) bool { return len(a.handling) > 0 }
	alone := handles(a) || a.store.Shared() == nil
	atWork.Lock()
	defer atWork.Unlock()
	others := atWork.apps[place]
	if alone && len(others) > 0 || slices.ContainsFunc(others, handles) {
		return func() {}, fmt.Errorf("another app of this process runs on %s, and each would take events of the other: make one app for both, "+
			"whose handlers tell them apart by prefixes of their service call ids, or give each a database, on PostgreSQL a schema, of its own", name)
	}
	atWork.apps[place] = append(others, a)
	return func() {
		atWork.Lock()
		defer atWork.Unlock()
		atWork.apps[place] = slices.DeleteFunc(atWork.apps[place], func(b *App) bool { return a == b })
	}, nil
}

// eventOf decodes the event of a row. The error is a [timer.ErrInvalid].
func eventOf(row outbox.Row) (timer.DueTimeReached, error) {
	m, err := envelope.DecodeWith(row.Message.Payload, row.Message.Metadata.Get)
	if err != nil {
		return timer.DueTimeReached{}, fmt.Errorf("decode the event: %w", err)
	}
	e, ok := timer.EventOf(m.Payload)
	if !ok {
		return timer.DueTimeReached{}, timer.Invalid(timer.ReasonUnknownType, "%s is no event", timer.Quote(m.Type))
	}
	return e, nil
}
