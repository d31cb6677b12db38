package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/envelope"
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
}

// OnDue has events handled in this process, straight from the outbox, instead of
// sending them to the broker. Call it before the start, once; else it panics.
//
// An event is deleted after handle has returned nil. After an error or a panic, or
// if the process ends in between, it is handled again, so that handle must bear to
// see it twice: at least once. An error that wraps [timer.ErrInvalid] says that no
// retry can help: the event is parked, with the error, and can be retried
// ([Timers.Retry]). Handle is called by many goroutines at once, in no
// order, with the trace of the event in its context. A stop waits for calls at work,
// at most [Options].DrainTimeout; then their context ends.
func (t *Timers) OnDue(handle func(ctx context.Context, e timer.DueTimeReached) error, opt OnDueOptions) {
	t.app.onDue(func(ctx context.Context, e timer.DueTimeReached, _ outbox.Place) (deleted bool, err error) {
		return false, handle(ctx, e)
	}, opt)
}

// OnDueTx is as OnDue, with a transaction: what handle writes in it is committed
// together with the deletion of the event, or not at all. On this database an event
// takes effect exactly once, however often the process ends. [Timers.ScheduleTx] and
// [Timers.CancelTx] work in it; Schedule, Cancel and Tx with the context of handle
// return an error, since they would wait for it, or commit what is done again after a
// rollback. On SQLite nothing else is written while handle is at
// work, so it should do nothing but that. An attempt begins with the transaction:
// to wait for that, or for the database, is none.
func (t *Timers) OnDueTx(handle func(ctx context.Context, tx *sql.Tx, e timer.DueTimeReached) error, opt OnDueOptions) {
	opt = opt.withDefaults()
	handling := opt.Timeout
	opt.Timeout *= 2 // of both: to wait for the transaction, and to handle the event
	t.app.onDue(func(ctx context.Context, e timer.DueTimeReached, row outbox.Place) (deleted bool, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		waiting := time.AfterFunc(handling, cancel)
		defer waiting.Stop()
		begun := false
		err = t.Tx(ctx, func(tx *sql.Tx) error {
			if !waiting.Stop() {
				return ctx.Err()
			}
			there, err := t.app.store.TakeEvent(ctx, tx, row)
			if err != nil || !there { // another one has handled it
				return err
			}
			begun = true
			ctx, cancel := context.WithTimeout(ctx, handling)
			defer cancel()
			return handle(context.WithValue(ctx, within{}, t), tx, e)
		})
		if err != nil && !begun {
			err = fmt.Errorf("%w: %w", outbox.ErrNotBegun, err)
		}
		return err == nil, err
	}, opt)
}

// within is the key of the Timers whose OnDueTx has a context, so that calls which would
// wait for its transaction can say so.
type within struct{}

var errWithin = errors.New("a handler of OnDueTx has a transaction, which this would wait for or commit beside: call ScheduleTx or CancelTx with it")

// beside returns an error in a handler of OnDueTx.
func (t *Timers) beside(ctx context.Context) error {
	if ctx.Value(within{}) == t {
		return errWithin
	}
	return nil
}

func (o OnDueOptions) withDefaults() OnDueOptions {
	if o.Timeout <= 0 {
		o.Timeout = defaultDueTimeout
	}
	return o
}

// defaultDueTimeout is that of [OnDueOptions].
const defaultDueTimeout = time.Minute

var (
	errNowhere = errors.New("events would have nowhere to go: give the app a broker, or call Timers.OnDue before the start")
	errLate    = "app: OnDue after the start" // of panics
	errTwice   = "app: OnDue twice"
)

// onDue makes handle the one for all events. Row is where the event is.
func (a *App) onDue(handle func(ctx context.Context, e timer.DueTimeReached, row outbox.Place) (deleted bool, err error), opt OnDueOptions) {
	switch {
	case a.started.Load():
		panic(errLate)
	case a.delivery.Handle != nil:
		panic(errTwice)
	}
	opt = opt.withDefaults()
	a.delivery = outbox.Delivery{
		Concurrency: opt.Concurrency, Attempts: opt.Attempts, MinDelay: opt.MinDelay, MaxDelay: opt.MaxDelay, Timeout: opt.Timeout,
		Grace: a.opt.DrainTimeout,
		Handle: func(ctx context.Context, row outbox.Row) (bool, error) {
			e, err := eventOf(row)
			if err != nil {
				return false, err
			}
			ctx, end := a.opt.Tracing.Due(ctx, e)
			deleted, err := false, errors.New("panic") // unless it is known better
			defer func() { end(err) }()
			deleted, err = handle(ctx, e, row.Place)
			return deleted, err
		},
	}
	a.forwarder = a.newForwarder()
}

// atWork has the apps that run in this process, by their database.
var atWork = struct {
	sync.Mutex
	apps map[string][]*App
}{apps: make(map[string][]*App)}

// enter returns an error if another app of this process runs on the database, and either
// has a handler: that one would get events of the other. Nothing but the process knows of
// both, since they may share a handle, and instances of other processes are welcome. Leave
// must be called at the end.
func (a *App) enter(ctx context.Context) (leave func(), err error) {
	id, name, err := a.store.Identity(ctx)
	if err != nil {
		return func() {}, fmt.Errorf("store: %w", err)
	}
	place := id + " " + name
	handles := func(a *App) bool { return a.delivery.Handle != nil }
	atWork.Lock()
	defer atWork.Unlock()
	others := atWork.apps[place]
	if handles(a) && len(others) > 0 || slices.ContainsFunc(others, handles) {
		return func() {}, fmt.Errorf("another app of this process runs on %s, and events of one would go to the handler of the other: make one app for both, "+
			"whose handler tells them apart by their service call ids, or give each a database, on PostgreSQL a schema, of its own", name)
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
	m, err := envelope.Decode(row.Message.Payload)
	if err != nil {
		return timer.DueTimeReached{}, fmt.Errorf("decode the event: %w", err)
	}
	e, ok := m.Payload.(timer.DueTimeReached)
	if !ok {
		return timer.DueTimeReached{}, timer.Invalid(timer.ReasonUnknownType, "%s is no event", timer.Quote(m.Type))
	}
	if e.Trace.Parent == "" {
		e.Trace = envelope.TraceFrom(row.Message.Metadata.Get)
	}
	return e, nil
}
