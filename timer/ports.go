package timer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

// Commands applies commands. A [Store] does that in one transaction for each call; other
// implementations use a transaction that a host began.
type Commands interface {
	// Schedule applies commands in one transaction and returns the result of each,
	// in place. The newest version of a key wins, whatever the order of the commands.
	// New timers get now, rounded down, as their RegisteredAt, and DueAt is kept
	// rounded up. The [Receipts] of commands that want one are appended to the outbox.
	//
	// If the database refuses a command, its result has the error, and the other
	// commands are applied. Commands of one message, which have the same tenant and
	// version and follow one another, are applied together or not at all. Schedule
	// returns an error only if the database fails; then nothing is applied, or the
	// effect is unknown. The commands must be valid by [ScheduleTimer.Validate].
	Schedule(ctx context.Context, now time.Time, commands ...ScheduleTimer) ([]Result, error)

	// Cancel applies commands in one transaction, as Schedule does.
	Cancel(ctx context.Context, now time.Time, commands ...CancelTimer) ([]Result, error)
}

// A Transaction applies commands in a transaction that a host began, and reads in it.
type Transaction interface {
	Commands

	// List returns timers of a tenant as [Reader] does, with the changes of the transaction.
	List(ctx context.Context, filter Filter) (Page, error)

	// PutInbox adds messages to the [Inbox] in the transaction.
	PutInbox(ctx context.Context, messages ...InboxMessage) error
}

// A Store keeps timers and the outbox durably: when a method returns nil, its effect survives
// a crash. All methods are safe for concurrent use, in this process and by other instances on
// the same database.
//
// An error that wraps [ErrInvalid] is a final refusal. One that wraps [ErrFatal] ends the
// service. Any other error may be temporary: its effect is unknown, and the method may be
// called again.
type Store interface {
	Commands // each call in a transaction of its own

	// Update runs fn in one transaction, which commits if fn returns nil and
	// is rolled back otherwise. Fn must not wait for anything except the Tx, and must
	// not use the Tx after it has returned.
	Update(ctx context.Context, fn func(Tx) error) error

	// NextDue returns the earliest due time after the one given, of all Scheduled
	// timers, or the zero time if there is none. After the zero time it is the
	// earliest of all. It only reads, and never waits for a writer.
	NextDue(ctx context.Context, after time.Time) (time.Time, error)
}

// A Result is the result of one command.
type Result struct {
	Outcome Outcome // its effect; zero with an Err
	Err     error   // why the database refuses it, an [ErrInvalid]; nil if it was applied
}

// A Tx is a transaction of [Store.Update]. The poller fires timers in it.
type Tx interface {
	// Reach marks at most limit entries with DueAt <= now as Reached, or as Expired if
	// ExpiresAt <= now, and returns them in no particular order. Their ReachedAt is now,
	// to the millisecond. No other Tx can return the same entry. If more than limit are
	// due, tenants share the limit equally, and the oldest entries of a tenant come
	// first. Allow limits the entries of each tenant; nil allows all. With an allowance
	// Reach may return fewer than limit although more are due and allowed; further calls
	// return the others.
	Reach(ctx context.Context, now time.Time, limit int, allow Allowance) ([]Entry, error)

	// Emit appends events to the outbox, in the order given.
	Emit(ctx context.Context, events ...DueTimeReached) error

	// EmitReceipts appends receipts to the outbox, in the order given.
	EmitReceipts(ctx context.Context, receipts ...Receipt) error
}

// An Allowance returns how many timers of a tenant may fire now. During a transaction it
// returns the same for the same tenant.
type Allowance func(TenantID) int

// A Reader reads timers. It never takes a write lock, and the time of a call does not grow
// with the number of timers.
type Reader interface {
	// Get returns the timer, or [ErrNotFound].
	Get(ctx context.Context, key Key) (Entry, error)

	// List returns timers that match a filter, a page at a time. The error of a filter
	// that is not valid wraps [ErrInvalid].
	List(ctx context.Context, filter Filter) (Page, error)

	// Overdue returns how many Scheduled timers of a tenant, or of all if it is empty,
	// were due before now.
	Overdue(ctx context.Context, tenant TenantID, now time.Time) (Overdue, error)

	// Delivery returns where the event with an id is. Its timer is Reached or Expired.
	Delivery(ctx context.Context, eventID string) (Delivery, error)

	// Upcoming returns how many Scheduled timers, of a tenant or of all if it is empty,
	// are due in each of n intervals of a width, which is rounded up to milliseconds,
	// from a time on. A count stops at a limit, which may stand for more: see
	// [MaxUpcoming]. It returns the error of [CheckIntervals].
	Upcoming(ctx context.Context, tenant TenantID, from time.Time, width time.Duration, n, limit int) ([]int64, error)

	// Parked returns parked events of a tenant, or of all if it is empty, newest first:
	// those with a lower number than before, or the newest if before is 0.
	Parked(ctx context.Context, tenant TenantID, before int64, limit int) ([]ParkedEvent, error)

	// Unclaimed returns the first service calls, at most limit, whose events wait in the
	// outbox because no instance that runs has a handler for them.
	Unclaimed(ctx context.Context, limit int) ([]ServiceCallID, error)

	// Failing returns destinations to which events could not be sent, which wait, at most
	// [MaxDestinations] of them.
	Failing(ctx context.Context) ([]FailingDestination, error)

	// Firing returns the pauses of firing that are in force at a time.
	Firing(ctx context.Context, now time.Time) (Pauses, error)

	// Stats returns the numbers of a tenant, or of all if it is empty. For a tenant only
	// the counts of its timers are set.
	Stats(ctx context.Context, tenant TenantID) (Stats, error)

	// Tenants returns the counts of at most limit tenants that have timers, after
	// the one given, in order.
	Tenants(ctx context.Context, after TenantID, limit int) ([]TenantCounts, error)
}

// A Filter says which timers [Reader.List] returns, and in which order. With a TenantID it
// selects timers of that tenant which match all other fields, ordered by service call id.
//
// Without a TenantID it is for operators and selects timers of all tenants by exactly one
// field: CorrelationID (in no order, on one page), DueBefore (Scheduled timers, soonest first),
// or OverFrom (finished timers, in the order in which they finished).
type Filter struct {
	TenantID      TenantID
	Prefix        string    // only timers whose service call begins with it; any if empty
	State         State     // only this state; any if empty
	DueFrom       time.Time // only timers due then or later; any if zero
	DueBefore     time.Time // only timers due before then; any if zero
	CorrelationID string    // only timers that carry it; any if empty
	OverFrom      time.Time // timers of all tenants that became Reached, Expired or Canceled then or later
	After         string    // the page begins after it: [Page.Next] of the previous page; with a TenantID any service call id
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
	return Invalid(ReasonMissingField, "name a tenant, or without one either a correlation id, a time before which timers are due, or one since when they are finished")
}

// These bound the entries of a page of [Reader].
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// PageSize returns how many entries a page has for a limit that a caller asked for.
func PageSize(limit int) int {
	if limit <= 0 {
		return DefaultPage
	}
	return min(limit, MaxPage)
}

// PageWalk is the most timers that [Reader.List] reads in one call. It bounds the time of a
// filter that matches few of many.
const PageWalk = 10_000

// A Page is a result of [Reader.List]. It may be short, or even empty, although there is a
// next one.
type Page struct {
	Entries []Entry
	Next    string // [Filter.After] of the next page, in a form of the store; empty after the last
}

// MaxOverdue is the most timers that [Reader.Overdue] counts. It bounds its time.
const MaxOverdue = 10_000

// An Overdue counts the timers that are overdue.
type Overdue struct {
	Timers int64     // how many; [MaxOverdue] may stand for more
	Oldest time.Time // their earliest due time; zero if there are none
}

// A DeliveryState says where an event is.
type DeliveryState string

// These are the states of a delivery.
const (
	Waiting         DeliveryState = "waiting"   // in the outbox, to be published
	Deferred        DeliveryState = "deferred"  // in the outbox, to be published again after a failure
	Snoozed         DeliveryState = "snoozed"   // in the outbox, since its handler wants it [Later]
	Parked          DeliveryState = "parked"    // not in the outbox any more: the broker refused it for good
	Published       DeliveryState = "published" // the broker has acked it
	DeliveryUnknown DeliveryState = "unknown"   // more than [DeliveryWalk] events wait, and it is not among the first
)

// DeliveryWalk is the most events of each kind that [Reader.Delivery] reads. It bounds its
// time.
const DeliveryWalk = 10_000

// A Delivery describes an event on its way to the broker.
type Delivery struct {
	State       DeliveryState
	Since       time.Time // when it came to the outbox, or was parked; zero if Published or unknown
	Attempts    int       // publishes that failed though the broker was available
	Reason      string    // of the last failure, or of a Snoozed; empty if there was none
	Destination string    // of a Deferred: the topic, and partition, that failed; of a handler's event the tenant and the prefix
	RetryAt     time.Time // of a Deferred or Snoozed: when the next attempt is
}

// Counts are numbers of timers.
type Counts struct {
	Scheduled int64 // timers that wait
	Reached   int64 // timers that fired and are not purged yet
	Expired   int64 // timers that expired and are not purged yet
	Canceled  int64 // timers and tombstones that are not purged yet
}

// TenantCounts are the counts of one tenant.
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
	// Paused and Held count timers of at most a hundred tenants, and at most
	// [MaxOverdue] of each.
	Paused int64 // timers that are due and wait until firing is resumed
	Held   int64 // timers that are due and wait for the fire rate of their tenant
}

// These bound [Reader].Failing.
const (
	MaxDestinations = 100
	MaxFailing      = 1000 // events that are counted of a destination; on PostgreSQL in each shard
)

// A FailingDestination has events that wait, at least one of which it has not taken.
type FailingDestination struct {
	Destination string    // the topic, and the partition if the broker names it; of a handler the tenant and the prefix
	Events      int64     // how many; [MaxFailing] may stand for more
	Oldest      time.Time // when the oldest of these events came to the outbox
	Reason      string    // of the failure of the event that was tried most often
}

// Waiting says how many events wait.
func (f FailingDestination) Waiting() string {
	switch {
	case f.Events >= MaxFailing:
		return fmt.Sprintf("%d or more wait", f.Events)
	case f.Events == 1:
		return "1 waits"
	}
	return fmt.Sprintf("%d wait", f.Events)
}

// LongestFailing returns the destination whose events have waited longest, of at least one.
func LongestFailing(all []FailingDestination) FailingDestination {
	return slices.MinFunc(all, func(a, b FailingDestination) int { return a.Oldest.Compare(b.Oldest) })
}
