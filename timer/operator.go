package timer

import (
	"context"
	"strings"
	"time"
)

// An Operator is what people who run the service change in a store, and what retention
// deletes. All methods are safe for concurrent use, and may be called again after an error.
type Operator interface {
	// Purge deletes at most limit timers that were Reached, Expired or Canceled before the
	// time given, oldest first, and returns how many: fewer than limit if there
	// are no more. Without something to delete it writes nothing.
	Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error)

	// RetryParked puts parked events back into the outbox, as if they were new: under
	// new numbers, behind the others, with no failed attempt, appended at now. It
	// returns how many; those that are gone do not count.
	RetryParked(ctx context.Context, now time.Time, seqs ...int64) (retried int, err error)

	// DiscardParked deletes parked events, and returns how many. Their timers stay
	// Reached or Expired.
	DiscardParked(ctx context.Context, seqs ...int64) (discarded int, err error)

	// PauseFiring notes that no instance is to fire timers of a tenant, or of all, until
	// ResumeFiring or until the end of the pause; the pollers obey. If that is paused
	// already, only the end of the pause changes: who paused it first, and when, stays.
	PauseFiring(ctx context.Context, p Pause) error

	// ResumeFiring ends the pause of a tenant, or that of all if it is empty, if there
	// is one. Neither ends the other.
	ResumeFiring(ctx context.Context, tenant TenantID) error

	// Forget deletes at most limit timers of a tenant, of any state, and its parked
	// events, and returns how many timers: none if there are no more. Fewer than limit is not the end, since others change and delete timers meanwhile. It
	// deletes what there is and keeps no memory of it: a command that comes later
	// schedules, however old it is. Events that wait in the outbox are still published:
	// a timer that is Reached or Expired has an event under way.
	Forget(ctx context.Context, tenant TenantID, limit int) (Counts, error)

	// Nodes returns the instances that run on the database, the oldest first. Where
	// instances share it, one that holds no shard of the outbox just then is
	// missing: it is at its start or its end, or has lost its connection.
	Nodes(ctx context.Context) ([]Node, error)
}

// A Refire selects events that are published again, for consumers or a broker that lost them.
type Refire struct {
	TenantID TenantID  // of this tenant; empty: of all
	Prefix   string    // of service calls that begin so; empty: of all
	Since    time.Time // of timers that were Reached or Expired then or later
	Until    time.Time // and before then; zero: now
	After    string    // behind what was done before: [Refired.Next]; empty: from the start
	DryRun   bool      // only count them
}

// Validate returns the request with Until set, at a time. The error wraps [ErrInvalid] if a
// field is not well formed, Since is missing, or not before Until and now.
func (r Refire) Validate(now time.Time) (Refire, error) {
	if r.Until.IsZero() || r.Until.After(now) {
		r.Until = now
	}
	switch {
	case r.Since.IsZero():
		return r, Invalid(ReasonMissingField, "since is missing: the time from which on the events are wanted")
	case !r.Since.Before(r.Until):
		return r, Invalid(ReasonBadField, "since is not before until and now")
	case r.TenantID != "":
		if err := r.TenantID.Validate(); err != nil {
			return r, err
		}
	}
	return r, optionalPrefix("prefix", r.Prefix)
}

// Refired is what came of a [Refire].
type Refired struct {
	Events       int       // how many were published again, or counted
	First        []Entry   // timers of the first of them, at most [FirstRefired]
	Next         string    // [Refire.After] of the call that goes on; empty: that is all
	Until        time.Time // [Refire.Until], or the time of the call, for the call that goes on
	CompleteFrom time.Time // timers that were Reached or Expired before may be deleted
}

// FirstRefired is how many timers a [Refired] shows.
const FirstRefired = 10

// A ParkedEvent is one that the broker refused for good.
type ParkedEvent struct {
	Seq           int64  // its number
	ID            string // of the event
	TenantID      TenantID
	ServiceCallID ServiceCallID
	CorrelationID string    // empty if there was none
	AppendedAt    time.Time // when it came to the outbox
	ParkedAt      time.Time
	Attempts      int    // publishes that failed
	Reason        string // of the last failure
	Body          []byte // the whole message, as it was to be published
}

// A Pause says that firing is paused: timers stay Scheduled, commands are taken.
type Pause struct {
	TenantID TenantID  // whose timers do not fire; empty: those of all tenants
	Since    time.Time // zero: firing is not paused
	Until    time.Time // when timers fire again without more ado; zero: not before firing is resumed
	By       string    // who paused it: text of the caller, cut to [MaxPausedBy] bytes
}

// Paused reports whether firing is paused, or was until the end of the pause.
func (p Pause) Paused() bool { return !p.Since.IsZero() }

// InForce reports whether firing is paused at a time.
func (p Pause) InForce(now time.Time) bool {
	return p.Paused() && (p.Until.IsZero() || now.Before(p.Until))
}

// String says since when firing is paused, until when and by whom, for people.
func (p Pause) String() string {
	text := p.Since.UTC().Format(time.RFC3339)
	if !p.Until.IsZero() {
		text += " until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.By != "" {
		text += " by " + p.By
	}
	return text
}

// Kept returns the pause as stores keep it: a valid text without NUL, cut, and times
// in milliseconds. The error wraps [ErrInvalid] if it has no time, or ends before it begins.
func (p Pause) Kept() (Pause, error) {
	switch {
	case !p.Paused():
		return Pause{}, Invalid(ReasonMissingField, "a pause has no time")
	case !p.InForce(p.Since):
		return Pause{}, Invalid(ReasonBadField, "a pause until %s is over", p.Until.UTC().Format(time.RFC3339))
	case p.TenantID != "":
		if err := p.TenantID.Validate(); err != nil {
			return Pause{}, err
		}
	}
	by := strings.ReplaceAll(p.By, "\x00", "")
	p.Since, p.Until, p.By = RoundDown(p.Since), RoundUp(p.Until), strings.ToValidUTF8(by[:min(len(by), MaxPausedBy)], "")
	return p, nil
}

// Pauses are the pauses of tenants, and the one of all tenants under the empty tenant.
type Pauses map[TenantID]Pause

// Of returns the pause that keeps timers of a tenant from firing at a time, the one of all
// tenants first; the zero value if there is none. Of an empty tenant it is the pause of all.
func (ps Pauses) Of(tenant TenantID, now time.Time) Pause {
	for _, t := range []TenantID{"", tenant} {
		if p := ps[t]; p.InForce(now) {
			return p
		}
	}
	return Pause{}
}

// MaxPausedBy is how many bytes of [Pause.By] are kept.
const MaxPausedBy = 200

// MaxUpcoming is where the counts of [Reader.Upcoming] stop, so that it takes no
// longer for more. Sixty intervals with more than so many timers in each, of ten
// million, took 4 ms on PostgreSQL, and 120 to 260 ms between a bulk load and the vacuum
// that follows it, when each entry of the index needs a look at its row. On SQLite it
// took 10 ms for a hundred tenants, and up to 0.7 s for ten thousand (measured 2026-11).
const MaxUpcoming = 500

// Bounds of the intervals of [Reader.Upcoming].
const (
	MaxIntervals     = 1000
	MaxIntervalWidth = 366 * 24 * time.Hour
)

// CheckIntervals returns an error that wraps [ErrInvalid] unless intervals are 1 to
// [MaxIntervals] of a width above zero and at most [MaxIntervalWidth].
func CheckIntervals(width time.Duration, n int) error {
	if n < 1 || n > MaxIntervals {
		return Invalid(ReasonBadField, "%d intervals: want 1 to %d", n, MaxIntervals)
	}
	if width <= 0 || width > MaxIntervalWidth {
		return Invalid(ReasonBadField, "intervals of %v: want more than none and at most %v", width, MaxIntervalWidth)
	}
	return nil
}

// A Node is an instance of the service that runs on a store.
type Node struct {
	ID      string    // of the instance, from its start to its end
	Host    string    // name of its machine or container
	PID     int       // of its process there
	Version string    // of its program; empty if it is not known
	Started time.Time // when it opened the store
	Seen    time.Time // last sign of life
	Self    bool      // it is the one that was asked
}

// Add returns the sum.
func (c Counts) Add(d Counts) Counts {
	return Counts{Scheduled: c.Scheduled + d.Scheduled, Reached: c.Reached + d.Reached, Expired: c.Expired + d.Expired, Canceled: c.Canceled + d.Canceled}
}

// Count adds timers of a state.
func (c *Counts) Count(s State, n int64) {
	switch s {
	case Scheduled:
		c.Scheduled += n
	case Reached:
		c.Reached += n
	case Expired:
		c.Expired += n
	case Canceled:
		c.Canceled += n
	}
}

// Total is the number of all.
func (c Counts) Total() int64 { return c.Scheduled + c.Reached + c.Expired + c.Canceled }
