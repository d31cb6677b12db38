package timer

import (
	"context"
	"strings"
	"time"
)

// An Operator is the part of a store for people who run the service, and for retention. All
// methods are safe for concurrent use, and may be called again after an error.
type Operator interface {
	// Purge deletes at most limit timers that were Reached, Expired or Canceled before the
	// time given, oldest first, and returns how many it deleted. Fewer than limit means
	// that there are no more. If there are none, it writes nothing.
	Purge(ctx context.Context, before time.Time, limit int) (deleted int, err error)

	// RetryParked moves parked events back into the outbox as if they were new: appended
	// at now, with new numbers behind the others, and no failed attempt. It returns how
	// many it moved.
	RetryParked(ctx context.Context, now time.Time, seqs ...int64) (retried int, err error)

	// DiscardParked deletes parked events, and returns how many it deleted. Their timers
	// stay Reached or Expired.
	DiscardParked(ctx context.Context, seqs ...int64) (discarded int, err error)

	// Decide records a decision, and pauses or resumes firing if it is about that: no instance
	// fires timers of the tenant, or of all, until firing is resumed or until the pause ends.
	// The pollers read it. A decision whose mark is published was read from the broker: it
	// changes nothing if the database knows one of its tenant and kind that is as new. Another
	// one is made now: its time is after that of the last one, whatever the clocks say, and if
	// there is a pause already, only its end changes, and it keeps who began it and when.
	Decide(ctx context.Context, d Decision) error

	// Decisions returns the last decision of each tenant and kind, in the order of their
	// tenants. It only reads.
	Decisions(ctx context.Context) ([]Decision, error)

	// MarkPublished records that the broker has the mark of a decision, unless there is a
	// later one now.
	MarkPublished(ctx context.Context, d Decision) error

	// Forget deletes at most limit timers of a tenant, of any state, its parked
	// events and its messages in the inbox, and returns how many timers it deleted. Only zero means that there are no
	// more, since others change and delete timers meanwhile. Nothing of a timer is kept,
	// so a later command schedules it, however old that command is. Events that wait in
	// the outbox are still published. With a time Forget deletes only timers that were
	// registered until then, parked events that were appended until then, messages that
	// arrived before, and events that wait and were appended until then, too.
	Forget(ctx context.Context, tenant TenantID, until time.Time, limit int) (Counts, error)

	// Nodes returns the instances that run on the database, the oldest first. Where
	// instances share it, an instance is missing while it holds no shard of the outbox:
	// at its start, at its end, or after it has lost its connection.
	Nodes(ctx context.Context) ([]Node, error)
}

// A Refire selects events that are published again, for consumers or a broker that lost them.
type Refire struct {
	TenantID TenantID  // of this tenant; empty: of all
	Prefix   string    // of service calls that begin with it; empty: of all
	Since    time.Time // of timers that were Reached or Expired then or later
	Until    time.Time // and before then; zero: now
	After    string    // where the call before ended: its [Refired.Next]; empty: from the start
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

// Refired is the result of a [Refire].
type Refired struct {
	Events       int       // how many were published again, or counted
	First        []Entry   // timers of the first events, at most [FirstRefired]
	Next         string    // [Refire.After] of the next call; empty: there are no more events
	Until        time.Time // [Refire.Until], or the time of the call, for the next call
	CompleteFrom time.Time // timers that were Reached or Expired before may have been purged
}

// FirstRefired is the most timers that a [Refired] shows.
const FirstRefired = 10

// A ParkedEvent is an event that the broker refused for good.
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

// A Pause stops firing: timers stay Scheduled, and commands are still accepted.
type Pause struct {
	TenantID TenantID  // whose timers do not fire; empty: the timers of all tenants
	Since    time.Time // zero: firing is not paused
	Until    time.Time // when timers fire again by themselves; zero: not before firing is resumed
	By       string    // who paused it, in the words of the caller, cut to [MaxPausedBy] bytes
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

// Kept returns the pause as stores keep it: By is cut, valid UTF-8 and without NUL, and times
// are in milliseconds. It returns an [ErrInvalid] if the pause has no Since, or ends before it
// begins.
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

// Pauses holds the pauses of tenants. The pause of all tenants is under the empty tenant.
type Pauses map[TenantID]Pause

// Of returns the pause that stops the timers of a tenant at a time, or the zero value if there
// is none. The pause of all tenants comes first; for an empty tenant only that one counts.
func (ps Pauses) Of(tenant TenantID, now time.Time) Pause {
	for _, t := range []TenantID{"", tenant} {
		if p := ps[t]; p.InForce(now) {
			return p
		}
	}
	return Pause{}
}

// MaxPausedBy is the greatest length of [Pause.By], in bytes.
const MaxPausedBy = 200

// MaxUpcoming is where counts of many intervals by [Reader.Upcoming] stop, which bounds its time. With ten
// million timers and more than MaxUpcoming in each of sixty intervals it took 4 ms on
// PostgreSQL, and 120 to 260 ms between a bulk load and the vacuum that follows it, when
// PostgreSQL must read the row of each index entry. On SQLite it took 10 ms for a hundred
// tenants, and up to 0.7 s for ten thousand (measured 2026-11).
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
	Seen    time.Time // when it last showed that it runs
	Self    bool      // it is the instance that was asked
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
