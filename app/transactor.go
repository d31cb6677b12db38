package app

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A Transactor begins transactions of type T on the database of the timers, for [Tx] and
// [OnDueTx]. The method Pgx of a *postgres.Store returns one for a [pgx.Tx].
//
// [pgx.Tx]: https://pkg.go.dev/github.com/jackc/pgx/v5#Tx
type Transactor[T any] interface {
	// Transact runs fn in a transaction, as [Store] does.
	Transact(ctx context.Context, fn func(tx T) error) error

	// Join returns commands that are applied in a transaction, as [Store] does.
	Join(tx T) timer.Transaction

	// TakeEvent deletes an event in a transaction, as [outbox.Taker] does.
	TakeEvent(ctx context.Context, tx T, row outbox.Place) (bool, error)
}

// Tx is [Timers.Tx] with transactions of another type. The commands that fn gives to in are
// committed together with its writes in tx, or rolled back, and the poller is woken for them.
func Tx[T any](ctx context.Context, t *Timers, db Transactor[T], fn func(tx T, in Joined) error) error {
	if err := cmp.Or(t.checkOutsideHandler(ctx), option.Missing("app.Tx", "Transactor", db, "function", fn)); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	var b pendingEffects
	begun, done, committed := false, false, false
	defer func() { t.ended(&b, committed) }() // also after a panic
	err := db.Transact(ctx, func(tx T) error {
		begun = true
		t.open.Store(tx, &b)
		defer t.open.Delete(tx)
		in := t.In(db.Join(tx))
		in.open = &b
		err := fn(tx, in)
		done = err == nil
		return err
	})
	if !begun {
		return waited(err)
	}
	committed = err == nil
	if done && !committed && !b.due.IsZero() {
		t.app.poller.Booked(b.due) // it may be committed all the same
	}
	return err
}

// OnDueTx is [Timers.OnDueTx] with transactions of another type: the event is deleted
// with the commit of the writes of handle in tx, and schedules or cancels by in.
func OnDueTx[T any](
	t *Timers, db Transactor[T], prefix string, handle func(ctx context.Context, tx T, in Joined, e timer.DueTimeReached) error, opt OnDueOptions,
) {
	t.app.beforeStart()
	from := caller()
	switch {
	case handle == nil:
		t.app.mistaken(from, prefix, "has no function")
	case db == nil:
		t.app.mistaken(from, prefix, "has no Transactor")
	default:
		onDueTx(t, db, from, prefix, handle, opt)
	}
}

func onDueTx[T any](
	t *Timers, db Transactor[T], from, prefix string, handle func(ctx context.Context, tx T, in Joined, e timer.DueTimeReached) error, opt OnDueOptions,
) {
	opt = opt.withDefaults()
	handling := opt.Timeout
	opt.Timeout *= 2 // of both: to wait for the transaction, and to handle the event
	t.app.onDue(from, prefix, func(ctx context.Context, e timer.DueTimeReached, row outbox.Place) (deleted bool, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		waiting := time.AfterFunc(handling, cancel)
		defer waiting.Stop()
		begun := false
		err = Tx(ctx, t, db, func(tx T, in Joined) error {
			if !waiting.Stop() { // ctx ends now, or soon
				return context.Canceled
			}
			there, err := db.TakeEvent(ctx, tx, row)
			if err != nil || !there { // another one has handled it
				return err
			}
			begun = true
			ctx, cancel := context.WithTimeout(ctx, handling)
			defer cancel()
			return handle(context.WithValue(ctx, txHandlerKey{}, t), tx, in, e)
		})
		if err != nil && !begun {
			err = fmt.Errorf("%w: %w", outbox.ErrNotBegun, err)
		}
		return err == nil, err
	}, opt)
}

// A sqlTransactor has the transactions of database/sql.
type sqlTransactor struct{ Store }

// TakeEvent takes an event out of the outbox.
func (s sqlTransactor) TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error) {
	return s.Outbox().TakeEvent(ctx, tx, row)
}
