package timer

import (
	"cmp"
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

// Commands applies commands: those of a [Store] in a transaction for each call, others
// in a transaction that a host began.
type Commands interface {
	// Schedule applies commands in one transaction and returns the result of each,
	// in place. The newest version of a key wins, whatever the order of the
	// commands. Now, rounded down, becomes RegisteredAt of the
	// timers that are new. A command that the database refuses has a result with
	// an error, and changes nothing for the others; commands of one message (of
	// equal tenant and version, one after the other) are applied together or not
	// at all. The error is about the database alone: then nothing is applied, or
	// nothing is known. The commands must be valid by [ScheduleTimer.Validate];
	// DueAt is kept rounded up. In the same transaction the [Receipts] of commands
	// that want one are appended to the outbox.
	Schedule(ctx context.Context, now time.Time, commands ...ScheduleTimer) ([]Result, error)

	// Cancel applies commands in one transaction, as Schedule does.
	Cancel(ctx context.Context, now time.Time, commands ...CancelTimer) ([]Result, error)
}

// A Store keeps timers and the outbox, durably: when a method returns nil, what
// it did survives a crash. All methods are safe for concurrent use, here and
// from other instances on the same database.
//
// Errors: what wraps [ErrInvalid] is refused for good, what wraps [ErrFatal]
// ends the service, everything else may pass. After an error that may pass the
// effect is unknown; every method may be called again.
type Store interface {
	Commands // each call in a transaction of its own

	// Update runs fn in one transaction, which commits if fn returns nil and
	// leaves no trace if it does not. Fn must not wait for anything but the
	// Tx, and must not use the Tx after it returned.
	Update(ctx context.Context, fn func(Tx) error) error

	// NextDue returns the earliest due time after the one given, of all Scheduled
	// timers, or the zero time if there is none. After the zero time it is the
	// earliest of all. It only reads, and never waits for a writer.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
}

// A Result is what became of one command.
type Result struct {
	Outcome Outcome // what it did; zero with an Err
	Err     error   // why the database refuses it, an [ErrInvalid]; nil if it was applied
}

// A Tx is what happens when time has come, inside [Store.Update].
type Tx interface {
	// Reach marks at most limit entries with DueAt <= now as Reached, or as Expired if
	// ExpiresAt <= now, at now to the millisecond, and returns them in no particular order. No other Tx can
	// return the same entry. If more than limit are due, tenants share the
	// limit equally, oldest first within a tenant. A tenant's entries are no
	// more than allow allows, its oldest ones; nil allows all. With an allowance
	// there may be fewer than limit though more are due and allowed: further calls
	// return them.
	Reach(ctx context.Context, now time.Time, limit int, allow Allowance) ([]Entry, error)

	// Emit appends events to the outbox, in the order given.
	Emit(ctx context.Context, events ...DueTimeReached) error

	// EmitReceipts appends receipts to the outbox, in the order given.
	EmitReceipts(ctx context.Context, receipts ...Receipt) error
}

// An Allowance says how many timers of a tenant may fire now. It may be asked
// again about the same tenant, and says the same for the length of a
// transaction.
type Allowance func(TenantID) int

// A Reader reads timers. It never takes a write lock, and no call takes
// longer because there are more timers.
type Reader interface {
	// Get returns the timer, or [ErrNotFound].
	Get(ctx context.Context, key Key) (Entry, error)

	// List returns timers that match a filter, a page at a time. The error of a filter
	// that is not valid wraps [ErrInvalid].
	List(ctx context.Context, filter Filter) (Page, error)

	// Overdue returns how many Scheduled timers of a tenant, or of all if it is empty,
	// were due before now.
	Overdue(ctx context.Context, tenant TenantID, now time.Time) (Overdue, error)

	// Delivery returns where the event with an id is, of a timer that is Reached or Expired.
	Delivery(ctx context.Context, eventID string) (Delivery, error)

	// Upcoming returns how many Scheduled timers, of a tenant or of all if it is empty,
	// are due in each of n intervals of a width, which is rounded up to milliseconds,
	// from a time on. A count stops at [MaxUpcoming], which may stand for more. What
	// [CheckIntervals] refuses is an error that wraps [ErrInvalid].
	Upcoming(ctx context.Context, tenant TenantID, from time.Time, width time.Duration, n int) ([]int64, error)

	// Parked returns events that were parked, newest first, before a number or from the
	// newest on if it is 0, of a tenant or of all if it is empty.
	Parked(ctx context.Context, tenant TenantID, before int64, limit int) ([]ParkedEvent, error)

	// Unclaimed returns the service calls of up to limit events that wait in the outbox
	// because no handler of a host's program wants them, in their order.
	Unclaimed(ctx context.Context, limit int) ([]ServiceCallID, error)

	// Firing returns the pauses of firing that are in force at a time.
	Firing(ctx context.Context, now time.Time) (Pauses, error)

	// Stats returns what the store holds of a tenant, or of all if it is empty. Of a
	// tenant only the counts of its timers are known: zero if there is nothing of it.
	Stats(ctx context.Context, tenant TenantID) (Stats, error)

	// Tenants returns the counts of at most limit tenants that have timers, after
	// the one given, in order.
	Tenants(ctx context.Context, after TenantID, limit int) ([]TenantCounts, error)
}

// A Filter says which timers [Reader.List] returns, and in which order. With a TenantID
// they are the timers of the tenant that match all the rest, ordered by service call id.
// Without one the filter is for operators, and one other field says which timers of all
// tenants they are: CorrelationID the timers that carry it, in no order and on one page,
// DueBefore the timers that are Scheduled and due before then, soonest first, or OverFrom the
// timers that are over since then, in the order of that.
type Filter struct {
	TenantID      TenantID
	Prefix        string    // only timers whose service call begins so; any if empty
	State         State     // only this state; any if empty
	DueFrom       time.Time // only timers due then or later; any if zero
	DueBefore     time.Time // only timers due before then; any if zero
	CorrelationID string    // only timers that carry it; any if empty
	OverFrom      time.Time // timers of all tenants that were Reached, Expired or Canceled then or later
	After         string    // only what comes behind: [Page.Next] of the page before; with a TenantID any service call id
	Limit         int       // entries a page; default 100, at most 1000
}

// Validate returns an [ErrInvalid] if no timers can be listed by the filter.
func (f Filter) Validate() error {
	switch {
	case f.TenantID != "" && f.OverFrom.IsZero():
		return cmp.Or(optionalPrefix("prefix", f.Prefix), optionalPrefix("after", f.After))
	case f.CorrelationID != "" && f == Filter{CorrelationID: f.CorrelationID, Limit: f.Limit}:
		return nil
	case !f.DueBefore.IsZero() && f == Filter{DueBefore: f.DueBefore, After: f.After, Limit: f.Limit},
		!f.OverFrom.IsZero() && f == Filter{OverFrom: f.OverFrom, After: f.After, Limit: f.Limit}:
		return nil
	}
	return Invalid(ReasonMissingField, "name a tenant, or else a correlation id, a time before which timers are due, or one since when they are over, and nothing more")
}

// Entries of a page of [Reader].
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// PageSize returns how many entries a page has if a limit is asked for.
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultPage
	}
	return min(limit, MaxPage)
}

// PageWalk is how many timers [Reader.List] reads in one call, so that a
// filter which matches few of many does not take for ever.
const PageWalk = 10_000

// A Page is what [Reader.List] found. It may be short, even empty, and yet have
// a next one.
type Page struct {
	Entries []Entry
	Next    string // [Filter.After] of the next page, in the words of the store; empty after the last
}

// MaxOverdue is how many timers [Reader.Overdue] counts, so that it takes no longer
// for more.
const MaxOverdue = 10_000

// Overdue is how far the store is behind.
type Overdue struct {
	Timers int64     // how many; [MaxOverdue] may stand for more
	Oldest time.Time // earliest due time of these; zero if none
}

// A DeliveryState is where an event is.
type DeliveryState string

// Where an event is.
const (
	Waiting         DeliveryState = "waiting"   // in the outbox, to be published
	Deferred        DeliveryState = "deferred"  // in the outbox, to be published again after a failure
	Parked          DeliveryState = "parked"    // out of the outbox: the broker refused it for good
	Published       DeliveryState = "published" // the broker has acked it
	DeliveryUnknown DeliveryState = "unknown"   // more than [DeliveryWalk] events wait, and it is not among the first
)

// DeliveryWalk is how many events of each kind [Reader.Delivery] reads, so that it
// takes no longer for more.
const DeliveryWalk = 10_000

// A Delivery is where an event is on its way to the broker.
type Delivery struct {
	State       DeliveryState
	Since       time.Time // when it came to the outbox, or was parked; zero if Published or unknown
	Attempts    int       // publishes that failed though the broker was available
	Reason      string    // of the last failure; empty if there was none
	Destination string    // of a Deferred: the topic, and partition, that failed
	RetryAt     time.Time // of a Deferred: the next attempt
}

// Counts are numbers of timers.
type Counts struct {
	Scheduled int64 // timers that wait
	Reached   int64 // timers that fired and are not purged yet
	Expired   int64 // timers that expired and are not purged yet
	Canceled  int64 // timers and tombstones that are not purged yet
}

// TenantCounts are those of one tenant.
type TenantCounts struct {
	TenantID TenantID
	Counts
}

// Stats are counts over all tenants.
type Stats struct {
	Counts
	NextDue time.Time // earliest due time of all that wait; zero if none
	Outbox  int64     // events that wait for the broker, deferred or not
	Oldest  time.Time // when the oldest event that waits for the broker was appended; zero if none
	DueAt   time.Time // when the timer of the oldest event was due, about; zero if none
	Parked  int64     // events that the broker refused for good
	Paused  int64     // timers that are due and wait until firing is resumed, as far as that is known: of a hundred tenants, and [MaxOverdue] of each may stand for more
	Held    int64     // timers that are due and wait for the fire rate of their tenant, as far as that is known: of a hundred tenants, and [MaxOverdue] of each may stand for more
}
