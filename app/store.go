package app

import (
	"context"
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
