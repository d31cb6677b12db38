package app

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/event-service-agent/timer-service/client"
	"github.com/event-service-agent/timer-service/handlers"
	"github.com/event-service-agent/timer-service/timer"
)

// Timers are those of the program that the app runs in: it schedules and cancels them
// in its own database, without a message, and may do so in its own transactions.
// [App.Timers] returns them, and [Module] provides them. All methods are safe for
// concurrent use, and work before the start and after the stop.
//
//	Schedule    in a transaction that concurrent calls share; returns when it is durable
//	Tx          in a transaction that it begins and commits; the timers are on time
//	ScheduleTx  in a transaction of the host's, which commits when the host does
//	In          the same, for other kinds of transactions
//
// The rules are those for commands from a broker: the newest version of a key wins,
// quotas and the horizon hold. Errors to branch on wrap [timer.ErrInvalid],
// [timer.ErrStale], [timer.ErrReached] or [timer.ErrOverQuota], and say which key.
// Any other may pass: then the effect is unknown, and the call may be repeated, best
// with the same [client.Timer.Version].
type Timers struct {
	app      *App
	commands timer.Commands // with group commit
	versions client.Versions

	mu   sync.Mutex
	open map[*sql.Tx]*booked // transactions of Tx
}

// booked is what becomes known with the commit of a transaction.
type booked struct {
	due     time.Time // the earliest that was set; zero if none was
	decided []handlers.Decision
	ends    []func(committed bool) // of what is reserved until then
}

// Timers returns those of the host's program.
func (a *App) Timers() *Timers { return a.timers }

// Schedule schedules timers. It returns nil when all are durable. What is wrong with
// any of them by itself is found before anything is written; then each is applied by
// itself, and the error joins those that had no effect.
func (t *Timers) Schedule(ctx context.Context, timers ...client.Timer) error {
	if err := t.beside(ctx); err != nil {
		return fmt.Errorf("schedule timers: %w", err)
	}
	return t.direct().Schedule(ctx, timers...)
}

// Cancel cancels timers, with a version of now. To cancel one that is canceled, or was
// never scheduled, is no error.
func (t *Timers) Cancel(ctx context.Context, keys ...timer.Key) error {
	if err := t.beside(ctx); err != nil {
		return fmt.Errorf("cancel timers: %w", err)
	}
	return t.direct().Cancel(ctx, keys...)
}

// ScheduleTx schedules timers in a transaction of the host's on the same database:
// they are there if it commits, and never were if it does not. An error of the
// database has changed nothing, and the transaction can go on. In a transaction of
// [Timers.Tx] they are on time; after any other commit the next poll finds them,
// at most [Options].PollingInterval later, or at once after [Timers.Wake].
func (t *Timers) ScheduleTx(ctx context.Context, tx *sql.Tx, timers ...client.Timer) error {
	return t.in(tx).Schedule(ctx, timers...)
}

// CancelTx cancels timers in a transaction of the host's, as ScheduleTx schedules
// them.
func (t *Timers) CancelTx(ctx context.Context, tx *sql.Tx, keys ...timer.Key) error {
	return t.in(tx).Cancel(ctx, keys...)
}

// In returns what schedules and cancels in a transaction that a store has joined,
// such as one of pgx: timers.In(store.JoinPgx(tx)).Schedule(ctx, …). After its commit
// the next poll finds the timers, as after ScheduleTx.
func (t *Timers) In(joined timer.Commands) Joined {
	return Joined{timers: t, commands: joined, booked: func(b booked) { t.observe(b.decided) }, joins: true}
}

// Tx runs fn in a transaction of the database, commits if fn returns nil, and wakes
// the poller for what was scheduled in it. It waits its turn with the transactions of
// the store. In fn use what takes the tx: Schedule, Cancel and another Tx would wait for
// this one, on PostgreSQL if they are about the same timers, until their context ends,
// or half a minute.
func (t *Timers) Tx(ctx context.Context, fn func(tx *sql.Tx) error) error {
	if err := t.beside(ctx); err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	var b booked
	committed := false
	defer func() { // also after a panic
		for _, end := range b.ends {
			end(committed)
		}
	}()
	err := t.app.store.Transact(ctx, func(tx *sql.Tx) error {
		t.mu.Lock()
		t.open[tx] = &b
		t.mu.Unlock()
		defer func() {
			t.mu.Lock()
			delete(t.open, tx)
			t.mu.Unlock()
		}()
		return fn(tx)
	})
	if committed = err == nil; committed {
		t.committed(b)
	}
	return err
}

// Wake makes the poller poll now: for a host that commits what it has scheduled by
// itself.
func (t *Timers) Wake() { t.app.poller.Refresh() }

// Get returns a timer, or [timer.ErrNotFound].
func (t *Timers) Get(ctx context.Context, key timer.Key) (timer.Entry, error) {
	return t.app.store.Get(ctx, key)
}

// List returns timers of a tenant that match the filter, ordered by service call id,
// a page at a time.
func (t *Timers) List(ctx context.Context, tenant timer.TenantID, filter timer.Filter) (timer.Page, error) {
	return t.app.store.List(ctx, tenant, filter)
}

// Counts are what a tenant has.
type Counts struct {
	timer.Counts     // timers in each state
	Failing      int // events that have failed for ten minutes or longer, in this process
	Parked       int // events that were parked, up to a thousand
}

// Counts returns how many timers a tenant has in each state, and how many of their events
// wait for a person.
func (t *Timers) Counts(ctx context.Context, tenant timer.TenantID) (Counts, error) {
	counts, err := t.app.store.Counts(ctx, tenant)
	if err != nil {
		return Counts{}, err
	}
	parked, err := t.app.store.Parked(ctx, tenant, 0, 1000)
	return Counts{counts, t.app.forwarder.Failing(tenant), len(parked)}, err
}

// Parked returns the events that were parked behind a number, in the order of their
// numbers, of one tenant or, if that is "", of all.
func (t *Timers) Parked(ctx context.Context, tenant timer.TenantID, after int64, limit int) ([]timer.ParkedEvent, error) {
	return t.app.store.Parked(ctx, tenant, after, limit)
}

// Retry puts parked events back into the outbox, as [App.Retry].
func (t *Timers) Retry(ctx context.Context, seqs ...int64) (retried int, err error) {
	return t.app.Retry(ctx, seqs...)
}

func (t *Timers) direct() Joined { return Joined{timers: t, commands: t.commands, booked: t.committed} }

// in returns what joins a transaction of the host's.
func (t *Timers) in(tx *sql.Tx) Joined {
	j := t.In(t.app.store.Join(tx))
	t.mu.Lock()
	defer t.mu.Unlock()
	if open := t.open[tx]; open != nil {
		j.held = true
		j.booked = func(b booked) {
			t.mu.Lock()
			defer t.mu.Unlock()
			open.sooner(b.due)
			open.decided = append(open.decided, b.decided...)
			open.ends = append(open.ends, b.ends...)
		}
	}
	return j
}

// committed says what was committed.
func (t *Timers) committed(b booked) {
	if !b.due.IsZero() {
		t.app.poller.Sooner(b.due)
	}
	t.observe(b.decided)
}

// observe counts what became of commands.
func (t *Timers) observe(decided []handlers.Decision) {
	hooks := &t.app.hooks
	for _, d := range decided {
		t.app.opt.Counters.handled(d.Result)
		hooks.Handled(d.Result)
		if watch := hooks.Watch(); watch != nil {
			watch(d)
		}
	}
}

func (b *booked) sooner(due time.Time) {
	if !due.IsZero() && (b.due.IsZero() || due.Before(b.due)) {
		b.due = due
	}
}
