package timer

import (
	"context"
	"time"
)

// A Clock tells the time. It must be safe for concurrent use.
type Clock interface {
	Now() time.Time
}

// A ClockFunc is a function as a [Clock]: ClockFunc(time.Now).
type ClockFunc func() time.Time

// Now calls f.
func (f ClockFunc) Now() time.Time { return f() }

// A Store keeps timers and the outbox, durably: when a method returns nil, what
// it did survives a crash. All methods are safe for concurrent use, here and
// from other instances on the same database.
//
// Errors: what wraps [ErrInvalid] is refused for good, what wraps [ErrFatal]
// ends the service, everything else may pass. After an error that may pass the
// effect is unknown; every method may be called again.
type Store interface {
	// Schedule applies commands in one transaction, in the order given, and
	// returns the outcome of each. Now, rounded down, becomes RegisteredAt of
	// the timers that are new. If one command is invalid, none is applied.
	// The commands must be valid by [ScheduleTimer.Validate]; DueAt is kept
	// rounded up.
	Schedule(ctx context.Context, now time.Time, commands ...ScheduleTimer) ([]Outcome, error)

	// Cancel applies commands in one transaction, as Schedule does.
	Cancel(ctx context.Context, now time.Time, commands ...CancelTimer) ([]Outcome, error)

	// Update runs fn in one transaction, which commits if fn returns nil and
	// leaves no trace if it does not. Fn must not wait for anything but the
	// Tx, and must not use the Tx after it returned.
	Update(ctx context.Context, fn func(Tx) error) error

	// NextDue returns the earliest due time of all Scheduled timers, or the
	// zero time if there is none. It only reads, and never waits for a writer.
	NextDue(ctx context.Context) (time.Time, error)
}

// A Tx is what happens when time has come, inside [Store.Update].
type Tx interface {
	// Reach marks at most limit entries with DueAt <= now as Reached, at now
	// rounded down, and returns them in no particular order. No other Tx can
	// return the same entry. If more than limit are due, tenants share the
	// limit equally, oldest first within a tenant.
	Reach(ctx context.Context, now time.Time, limit int) ([]Entry, error)

	// Emit appends events to the outbox, in the order given.
	Emit(ctx context.Context, events ...DueTimeReached) error
}

// A Reader looks at timers. It never takes a write lock.
type Reader interface {
	// Get returns the timer, or [ErrNotFound].
	Get(ctx context.Context, key Key) (Entry, error)

	// List returns the timers of a tenant that match the filter, ordered by
	// service call id.
	List(ctx context.Context, tenant TenantID, filter Filter) ([]Entry, error)

	// Correlated returns at most limit timers of any tenant that carry the
	// correlation id, for operators.
	Correlated(ctx context.Context, correlationID string, limit int) ([]Entry, error)

	// Stats counts what the store holds.
	Stats(ctx context.Context) (Stats, error)
}

// A Filter narrows [Reader.List]. The zero value lists the first 100.
type Filter struct {
	State State         // only this state; any if empty
	After ServiceCallID // only service calls after this one: the last of the page before
	Limit int           // entries a page; default 100, at most 1000
}

// Stats are counts over all tenants.
type Stats struct {
	Scheduled int64     // timers that wait
	Reached   int64     // timers that fired and are not purged yet
	Canceled  int64     // timers and tombstones that are not purged yet
	NextDue   time.Time // earliest due time of all that wait; zero if none
	Outbox    int64     // events that wait for the broker
	Oldest    time.Time // when the oldest event that waits for the broker was appended; zero if none
	Parked    int64     // events that the broker refused for good
}

// A Purger forgets what is over.
type Purger interface {
	// Purge looks at no more than limit timers, beginning after the cursor,
	// deletes those Reached or Canceled before the given time, and returns how
	// many it deleted and the cursor to go on from: 0 after the last timer.
	// Without something to delete it writes nothing.
	Purge(ctx context.Context, before time.Time, cursor int64, limit int) (deleted int, next int64, err error)
}
