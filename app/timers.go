package app

import (
	"context"
	"database/sql"
	"sync"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/internal/option"
	"github.com/event-service-agent/timer-service/timer"
)

// Timers are those of the program that the app runs in: it schedules and cancels them
// in its own database, without a message, and may do so in its own transactions.
// [App.Timers] returns them, and [Module] provides them. All methods are safe for
// concurrent use, and work before the start and after the stop.
//
//	Get, List   read timers, as the other methods of [timer.Reader] do
//	Schedule    in a transaction that concurrent calls share; returns when it is durable
//	Tx          in a transaction that it begins and commits; the timers are on time
//	ScheduleTx  in a transaction of the caller; the timers are there once it commits
//	In          the same, for other kinds of transactions
//
// The rules are those for commands from a broker: the newest version of a key wins,
// quotas and the horizon hold. Errors to branch on wrap [timer.ErrInvalid],
// [timer.ErrStale], [timer.ErrReached], [timer.ErrExpired] or [timer.ErrOverQuota], and say which key.
// Any other may pass: then the effect is unknown, and the call may be repeated, best
// with the same [client.Timer.Version].
type Timers struct {
	timer.Reader // reads the timers, and events that were parked

	app       *App
	commands  timer.Commands // with group commit
	unbatched timer.Commands // without, for a call that meets the lock of another transaction
	versions  client.Versions
	open      sync.Map // by transaction of Tx: its *booked
}

// Timers returns the timers of the host program.
func (a *App) Timers() *Timers { return a.timers }

// Schedule schedules timers. It returns nil when all are durable. An invalid timer is
// found before anything is written; then each is applied by
// itself, and the error joins the errors of commands that had no effect.
func (t *Timers) Schedule(ctx context.Context, timers ...client.Timer) error {
	return t.direct(ctx).Schedule(ctx, timers...)
}

// Cancel cancels timers, with a version that follows the stored one. To cancel a timer that is
// canceled, or was never scheduled, is no error.
func (t *Timers) Cancel(ctx context.Context, keys ...timer.Key) error {
	return t.direct(ctx).Cancel(ctx, keys...)
}

// CancelWhere cancels many timers of a tenant that wait, whatever their versions, and the timers of
// older commands from the broker that wait for a quota. The selection
// is a prefix of their service calls, their correlation id, or a list of service calls, of
// which each without a timer leaves a tombstone, as Cancel does. It cancels
// thousands in steps, each durable by itself, and may be called again after an error.
func (t *Timers) CancelWhere(ctx context.Context, tenant timer.TenantID, of timer.Selection) (timer.CancelCounts, error) {
	return t.direct(ctx).CancelWhere(ctx, tenant, of)
}

// RescheduleWhere moves many timers of a tenant that wait, whatever their versions, to a time or
// by a duration. To a time it also moves the timers of older commands from the broker that wait for
// a quota. It selects as CancelWhere does; service calls of a list that have no timer are skipped. Their data, expiry and correlation id stay. A timer that would be due after it expires,
// or beyond the horizon, is refused and stays as it is; the counts name the first. It moves
// thousands in steps, each durable by itself: after an error the counts say how many were
// moved, and to move to a time again changes nothing.
func (t *Timers) RescheduleWhere(ctx context.Context, tenant timer.TenantID, of timer.Selection, move timer.Move) (timer.SelectionCounts, error) {
	return t.direct(ctx).RescheduleWhere(ctx, tenant, of, move)
}

// ScheduleTx schedules timers in a transaction of the caller on the same database:
// they are there if it commits, and never were if it does not. An error of the
// database has changed nothing, and the transaction can go on. In a transaction of
// [Timers.Tx] they are on time. Of any other commit the App is not told: it looks every
// 10 ms from the due time on, or from the call on if that is later, for up to five seconds, and
// otherwise at each poll. So the transaction should commit within five seconds.
func (t *Timers) ScheduleTx(ctx context.Context, tx *sql.Tx, timers ...client.Timer) error {
	return t.in("Timers.ScheduleTx", tx).Schedule(ctx, timers...)
}

// CancelTx cancels timers in a transaction of the caller, as ScheduleTx schedules
// them.
func (t *Timers) CancelTx(ctx context.Context, tx *sql.Tx, keys ...timer.Key) error {
	return t.in("Timers.CancelTx", tx).Cancel(ctx, keys...)
}

// CancelWhereTx cancels many timers in a transaction of the caller, as CancelWhere does: at
// most 10,000, including timers that the transaction has scheduled.
func (t *Timers) CancelWhereTx(ctx context.Context, tx *sql.Tx, tenant timer.TenantID, of timer.Selection) (timer.CancelCounts, error) {
	return t.in("Timers.CancelWhereTx", tx).CancelWhere(ctx, tenant, of)
}

// RescheduleWhereTx moves many timers in a transaction of the caller, as RescheduleWhere does: at
// most 10,000, including timers that the transaction has scheduled.
func (t *Timers) RescheduleWhereTx(ctx context.Context, tx *sql.Tx, tenant timer.TenantID, of timer.Selection, move timer.Move) (timer.SelectionCounts, error) {
	return t.in("Timers.RescheduleWhereTx", tx).RescheduleWhere(ctx, tenant, of, move)
}

// In returns a [Joined] that schedules and cancels in a transaction that a store has joined,
// such as one of pgx: timers.In(store.JoinPgx(tx)).Schedule(ctx, …). After its commit
// the next poll finds the timers, as after ScheduleTx.
func (t *Timers) In(joined timer.Transaction) Joined {
	option.Require("Timers.In", "transaction", joined)
	return Joined{timers: t, commands: joined, list: joined.List, putInbox: joined.PutInbox, joins: true}
}

// Tx runs fn in a transaction of the database, commits if fn returns nil, and wakes
// the poller for the timers that were scheduled in it. It waits its turn with the
// transactions of the store. In fn call the methods that take the tx. Schedule, Cancel and
// another Tx would wait for this transaction (on PostgreSQL only if they are about the same
// timers), until their context ends or for half a minute.
func (t *Timers) Tx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	if err := option.Missing("Timers.Tx", "function", fn); err != nil {
		return err
	}
	return Tx(ctx, t, sqlTransactor{t.app.store}, func(tx *sql.Tx, _ Joined) error { return fn(tx) })
}

// Wake makes the app look now for timers that are due, and for events and messages to be handled again. A
// host calls it after a commit of its own that scheduled timers, and a test after it has moved
// the [Options].Clock.
func (t *Timers) Wake() {
	t.app.poller.Refresh()
	t.app.forwarder.Wake()
	t.app.handlers.Wake()
}

// Counts are numbers of timers and events of a tenant.
type Counts struct {
	timer.Counts     // timers in each state
	Failing      int // events that have failed for ten minutes or longer, in this process
	Parked       int // events that were parked, up to a thousand
}

// Counts returns how many timers a tenant has in each state, and how many of their events
// wait for a person.
func (t *Timers) Counts(ctx context.Context, tenant timer.TenantID) (Counts, error) {
	if err := tenant.Validate(); err != nil {
		return Counts{}, err
	}
	stats, err := t.Stats(ctx, tenant)
	if err != nil {
		return Counts{}, err
	}
	parked, err := t.Parked(ctx, tenant, 0, 1000)
	return Counts{stats.Counts, t.app.forwarder.Failing(tenant), len(parked)}, err
}

// Retry puts parked events back into the outbox, as [App.Retry].
func (t *Timers) Retry(ctx context.Context, seqs ...int64) (retried int, err error) {
	return t.app.Retry(ctx, seqs...)
}

// direct returns a Joined without a transaction, for a call that does not come from a handler of OnDueTx.
func (t *Timers) direct(ctx context.Context) Joined {
	return Joined{timers: t, commands: t.commands, list: t.List, putInbox: t.app.store.Inbox().PutInbox, err: t.checkOutsideHandler(ctx)}
}

// in returns a Joined on a transaction of the caller, which a method got.
func (t *Timers) in(method string, tx *sql.Tx) Joined {
	if err := option.Missing(method, "*sql.Tx", tx); err != nil {
		return Joined{err: err}
	}
	j := t.In(t.app.store.Join(tx))
	if b, ok := t.open.Load(tx); ok {
		j.open = b.(*pendingEffects)
	}
	return j
}

// ended is called when a transaction of Tx was committed or rolled back.
func (t *Timers) ended(b *pendingEffects, committed bool) {
	if committed {
		Joined{timers: t}.applied(b.due, b.decided)
		return
	}
	for _, d := range b.decided { // its timers do not wait, since it was rolled back
		t.app.opt.Quotas.Decremented(d.TenantID)
	}
}

// observe reports the outcomes of commands to the hooks.
func (t *Timers) observe(decided []handlers.Decision) {
	for _, d := range decided {
		t.app.handled(d.Result)
		if watch := t.app.hooks.watch(); watch != nil {
			watch(d)
		}
	}
}
