package app

import (
	"context"
	"database/sql"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/poller"
	"github.com/event-service-agent/timer-service/store"
	"github.com/event-service-agent/timer-service/timer"
)

// A Store keeps all data of the service in a database. It is a *sqlite.Store or a
// *postgres.Store.
type Store interface {
	timer.Store

	// Timers returns the reader of timers.
	Timers() timer.Reader

	// Operator returns the changes that operators and retention make.
	Operator() timer.Operator

	// Recovery returns the calls that recover a database that was lost, or that is older
	// than the broker knows.
	Recovery() timer.Recoverer

	// Inbox returns where messages wait whose handling failed, or whose commands exceed a
	// quota.
	Inbox() timer.Inbox

	// Outbox returns where events wait for the broker: a table, or shards that
	// instances own.
	Outbox() outbox.Outbox

	// Shared returns the services of a database that several instances share, such as its
	// clock, or nil if the database belongs to one process.
	Shared() store.Shared

	// Join returns commands that are applied in a transaction of the caller on the same
	// database, and are committed with it, or rolled back. A call that returns
	// an error has changed nothing, and the transaction can go on. Until it ends it keeps
	// the keys of its commands, or with SQLite the database, from others. Where commands
	// need a receipt, that is committed too. It is for one goroutine at a time.
	Join(tx *sql.Tx) timer.Transaction

	// Transact runs fn in a transaction that waits its turn with those of the store. It
	// commits if fn returns nil, and leaves no trace if fn fails or panics; the error of
	// fn is returned as it is. Fn must not end the transaction, nor write through the
	// store but with Join and [outbox.Outbox.TakeEvent]: that would wait for the
	// transaction.
	Transact(ctx context.Context, fn func(tx *sql.Tx) error) error

	// Prepare checks the database before the first use.
	Prepare(ctx context.Context) error

	// Lock makes this app the only one that runs on the database, until unlock is called, if
	// the database belongs to one process. The error names the process that runs on it.
	Lock(ctx context.Context) (unlock func() error, err error)

	// Identity returns the id that the database was given when it was made, and its kind and
	// address, for people.
	Identity(ctx context.Context) (id, name string, err error)

	// Check returns nil if the database answers and takes writes, as far as that can be
	// found out without a write. The error says what is wrong.
	Check(ctx context.Context) error

	// Watch returns nil when ctx is done, and an error that wraps
	// [timer.ErrFatal] as soon as the database can't be trusted any more.
	Watch(ctx context.Context) error
}

// reference returns the time by a clock of another machine: of the database if instances
// share it, of the broker otherwise.
func reference(s Store, b broker.Broker) func(context.Context) (time.Time, error) {
	if shared := s.Shared(); shared != nil {
		return shared.Now
	}
	return b.Now
}

// clockBehind reports whether the clock is behind the reference, which it asks.
func (a *App) clockBehind(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	t, err := reference(a.store, a.broker)(ctx)
	return err == nil && t.Sub(a.opt.Clock.Now()) > poller.JumpLimit
}

// InstancesOf returns how many instances share the database of a store, at least one. It
// does not block.
func InstancesOf(s Store) int {
	if shared := s.Shared(); shared != nil {
		return shared.Instances()
	}
	return 1
}
