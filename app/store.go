package app

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/outbox"
	"github.com/event-service-agent/timer-service/timer"
)

// A Store is all that the app needs of a store. Those of store/sqlite and
// store/postgres are one, and so is what embeds a Store and decorates some of its
// methods: no capability is looked for beyond this type.
type Store interface {
	timer.Store
	timer.Reader
	timer.Purger
	timer.Operator
	timer.Recoverer

	// Join returns what applies commands in a transaction of the host's on the same
	// database: what they do is committed with it, or rolled back. A call that returns
	// an error has changed nothing, and the transaction can go on. Until it ends it keeps
	// the keys of its commands, or with SQLite the database, from others. Where commands
	// need a receipt, that is committed too. It is for one goroutine at a time.
	Join(tx *sql.Tx) timer.Commands

	// Transact runs fn in a transaction that waits its turn with those of the store. It
	// commits if fn returns nil, and leaves no trace if fn fails or panics; the error of
	// fn is returned as it is. Fn must not end the transaction, nor write through the
	// store but with Join and TakeEvent: that would wait for the transaction.
	Transact(ctx context.Context, fn func(tx *sql.Tx) error) error

	// TakeEvent deletes the event of a row of the outbox, and reports whether it was
	// there: of several transactions that try, one commits that. The transaction is one
	// of Transact.
	TakeEvent(ctx context.Context, tx *sql.Tx, row outbox.Place) (bool, error)

	// Outbox returns where events wait for the broker: a table, or shards that
	// instances own.
	Outbox() outbox.Outbox

	// Prepare checks the database before the first use.
	Prepare(ctx context.Context) error

	// Identity returns the id that the database was given when it was made, and what it
	// is and where, for people.
	Identity(ctx context.Context) (id, name string, err error)

	// Attach notes that this instance uses the broker with an id, of that name for
	// people. If instances run that use another one it returns the name of that, and
	// changes nothing unless takeover: then those learn it when they call Attach again.
	Attach(ctx context.Context, broker, name string, takeover bool) (other string, err error)

	// Check returns nil if the database answers and takes writes, as far as that can be
	// found out without one, else what is wrong.
	Check(ctx context.Context) error

	// Watch returns nil when ctx is done, and an error that wraps
	// [timer.ErrFatal] as soon as the database can't be trusted any more.
	Watch(ctx context.Context) error

	// Now returns the time by the clock of the database, or
	// [errors.ErrUnsupported] if it has none of its own.
	Now(ctx context.Context) (time.Time, error)

	// Nodes returns the instances that run on the database, the oldest first. Where
	// instances share it, one that holds no shard of the outbox just then is
	// missing: it is at its start or its end, or has lost its connection.
	Nodes(ctx context.Context) ([]timer.Node, error)

	// Instances returns how many instances share the database, at least one. It is
	// called often and does not block.
	Instances() int
}

// reference returns the time by a clock that is not this machine's: that of the
// database, else that of the broker.
func reference(s Store, b broker.Broker) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) {
		now, err := s.Now(ctx)
		if errors.Is(err, errors.ErrUnsupported) {
			return b.Now(ctx)
		}
		return now, err
	}
}
