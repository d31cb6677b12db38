package timer

import (
	"cmp"
	"time"
)

// A ScheduleTimer asks for a [DueTimeReached] at DueAt, or, if the timer can't fire before
// ExpiresAt, for a [TimerExpired]. If the key has a timer already, the newer command wins.
type ScheduleTimer struct {
	Key
	Version
	DueAt         time.Time // when to fire; a time in the past is due at once
	ExpiresAt     time.Time // from then on it must not fire any more; after DueAt; zero: it may fire at any time
	CorrelationID string    // trace of the request; may be empty
	Trace         Trace     // where the command came from; may be empty
	Data          string    // a JSON value as it was written, for the event; empty if there is none
	Receipt       bool      // whether a [Receipt] is wanted; not on the wire
	Latest        bool      // an older Version is replaced by one that follows the timer's; not on the wire
	// Moves is the version of the Scheduled timer that the command moves. On another version,
	// or if there is no timer, the command has no effect. It has the other fields of that
	// timer. Zero: the command is an ordinary one. It is not on the wire.
	Moves Version
}

// Validate returns an [InvalidError] unless every field is well formed. It does not check that
// Data is JSON; package envelope does.
func (c ScheduleTimer) Validate() error {
	return cmp.Or(c.Key.Validate(), c.Version.Validate(), ValidateDueAt(c.DueAt), ValidateExpiresAt("expiresAt", c.ExpiresAt, c.DueAt), ValidateData("data", c.Data), validateOptional("correlationId", c.CorrelationID))
}

// MaxDataBytes is the greatest length of the data of a timer.
const MaxDataBytes = 4 << 10

// ValidateData returns an [InvalidError] if the data of a timer are too long. Field
// names them in the error.
func ValidateData(field, data string) error {
	if len(data) > MaxDataBytes {
		return Invalid(ReasonTooLarge, "%s has %d bytes; send at most %d", field, len(data), MaxDataBytes)
	}
	return nil
}

// A CancelTimer cancels a timer. For a key that has none it leaves a tombstone, so
// that an older ScheduleTimer that arrives later has no effect.
type CancelTimer struct {
	Key
	Version
	CorrelationID string // trace of the request; may be empty
	Trace         Trace  // where the command came from; may be empty
	Receipt       bool   // whether a [Receipt] is wanted; not on the wire
	Latest        bool   // an older Version is replaced by one that follows the timer's; not on the wire
}

// Validate returns an [InvalidError] unless every field is well formed.
func (c CancelTimer) Validate() error {
	return cmp.Or(c.Key.Validate(), c.Version.Validate(), validateOptional("correlationId", c.CorrelationID))
}

// A DueTimeReached is the event of a timer that fired.
type DueTimeReached struct {
	Key
	ID            string    // id of the event, the same at every attempt; set by the envelope
	CommandID     string    // id of the command that set the due time; not on the wire
	DueAt         time.Time // when it was to fire
	ExpiresAt     time.Time // when it would have expired; zero if it never would
	ReachedAt     time.Time // when it fired, or expired (see State), by the service's clock; never before DueAt
	CorrelationID string    // of the command; may be empty
	Trace         Trace     // of the firing, or of the command if the firing is not traced; may be empty
	Data          string    // of the command, byte for byte; may be empty
	Again         time.Time // when an operator had it published once more, as a message with an id of its own; zero the first time; not on the wire
}

// Lateness returns how long after its due time the timer fired.
func (e DueTimeReached) Lateness() time.Duration { return e.ReachedAt.Sub(e.DueAt) }

// State returns the state of the timer: Reached, or Expired if ReachedAt is not before
// ExpiresAt. Then the message of the event is a [TimerExpired].
func (e DueTimeReached) State() State { return stateAt(e.ReachedAt, e.ExpiresAt) }

// TimerExpired returns the event of an Expired timer in the form that handlers get.
func (e DueTimeReached) TimerExpired() TimerExpired {
	return TimerExpired{e.Key, e.ID, e.CommandID, e.DueAt, e.ExpiresAt, e.ReachedAt, e.CorrelationID, e.Trace, e.Data}
}

// A TimerExpired is the event of a timer that did not fire before its ExpiresAt, because the
// service was down, firing was paused, or its tenant was over its fire rate. It comes in
// place of the [DueTimeReached], under the same id.
type TimerExpired struct {
	Key
	ID            string    // of the event, the same at every attempt; set by the envelope
	CommandID     string    // id of the command that set the due time; not on the wire
	DueAt         time.Time // when it was to fire
	ExpiresAt     time.Time // from then on it must not fire any more
	ExpiredAt     time.Time // when it expired, by the service's clock; never before ExpiresAt
	CorrelationID string    // of the command; may be empty
	Trace         Trace     // of the firing, or of the command if the firing is not traced; may be empty
	Data          string    // of the command, byte for byte; may be empty
}

// Event returns the event in the form that stores and brokers use. Its State is Expired.
func (e TimerExpired) Event() DueTimeReached {
	return DueTimeReached{e.Key, e.ID, e.CommandID, e.DueAt, e.ExpiresAt, e.ExpiredAt, e.CorrelationID, e.Trace, e.Data, time.Time{}}
}

// EventOf returns v in the form that stores and brokers use, and whether v is the event of a
// timer: a [DueTimeReached] or a [TimerExpired].
func EventOf(v any) (e DueTimeReached, ok bool) {
	switch v := v.(type) {
	case DueTimeReached:
		return v, true
	case TimerExpired:
		return v.Event(), true
	}
	return e, false
}

// A State is the state of a timer.
type State string

// The states of a timer. They never go back from Reached or Expired.
const (
	Scheduled State = "Scheduled" // waits for its due time
	Reached   State = "Reached"   // fired; final
	Expired   State = "Expired"   // expired before it fired; final
	Canceled  State = "Canceled"  // canceled by a command; also a tombstone for a key that had no timer
)

// States lists all states.
var States = [...]State{Scheduled, Reached, Expired, Canceled}

// Marked reports whether a timer in this state is Reached or Expired, so that there is an event.
func (s State) Marked() bool { return s == Reached || s == Expired }

// stateAt returns the state of a timer that is marked at a time.
func stateAt(at, expiresAt time.Time) State {
	if expiresAt.IsZero() || RoundDown(at).Before(RoundUp(expiresAt)) {
		return Reached
	}
	return Expired
}

// An Entry is a timer as a store keeps it.
type Entry struct {
	Key
	Version                 // of the newest command that took effect
	State         State     // Scheduled, Reached, Expired or Canceled
	CorrelationID string    // of the command that set the due time; may be empty
	Trace         Trace     // of the command that set the due time; may be empty
	Data          string    // of the command that set the due time; empty if it had none, or if Canceled
	DueAt         time.Time // when it fires; zero for a tombstone
	ExpiresAt     time.Time // from then on it must not fire any more; zero if it may fire at any time
	RegisteredAt  time.Time // when the first command for the key was accepted; never moves
	ReachedAt     time.Time // when it fired or expired; zero unless Reached or Expired
	CanceledAt    time.Time // when it was last canceled; zero unless Canceled
}

// Command returns a command that would set the timer as it is.
func (e Entry) Command() ScheduleTimer {
	return ScheduleTimer{Key: e.Key, Version: e.Version, DueAt: e.DueAt, ExpiresAt: e.ExpiresAt, CorrelationID: e.CorrelationID, Trace: e.Trace, Data: e.Data}
}

// OverAt returns when the timer became Reached, Expired or Canceled.
func (e Entry) OverAt() time.Time {
	if e.State == Canceled {
		return e.CanceledAt
	}
	return e.ReachedAt
}

// Mark makes an entry that is due Reached at a time, or Expired.
func (e *Entry) Mark(at time.Time) { e.State, e.ReachedAt = stateAt(at, e.ExpiresAt), at }

// Event returns the event of an entry that is Reached or Expired. Its ID is not set yet.
func (e Entry) Event() DueTimeReached {
	return DueTimeReached{
		Key:           e.Key,
		CommandID:     e.CommandID,
		DueAt:         e.DueAt,
		ExpiresAt:     e.ExpiresAt,
		ReachedAt:     e.ReachedAt,
		CorrelationID: e.CorrelationID,
		Trace:         e.Trace,
		Data:          e.Data,
	}
}

// An Outcome is the effect of a command.
type Outcome uint8

// These are the outcomes. The first four changed the timer, the others did not.
const (
	DidSchedule     Outcome = iota + 1 // the timer is new, or Scheduled again after Canceled
	DidReschedule                      // due time, correlation and version were replaced
	DidCancel                          // the timer is Canceled now
	DidFire                            // an event that was published made the timer Reached or Expired; only a recovery has this outcome
	WasSame                            // the very command was accepted before
	WasStale                           // a newer command was accepted before
	WasReached                         // the timer has fired; Reached is final
	WasCanceled                        // the timer was Canceled already; only its version moved
	WasExpired                         // the timer has expired; Expired is final
	WasTied                            // as WasStale, but the newer command has the same millisecond: the ids decided
	WasPastExpiry                      // a move would make the timer due after it expires; it stays as it is
	WasChanged                         // the timer is not as it was when the move of it was made; the move is made again
	outcomeSentinel                    // one more than the last outcome
)

var outcomeNames = [outcomeSentinel]string{
	DidSchedule:   "scheduled",
	DidReschedule: "rescheduled",
	DidCancel:     "canceled",
	DidFire:       "fired",
	WasSame:       "duplicate",
	WasStale:      "stale",
	WasReached:    "already_reached",
	WasCanceled:   "already_canceled",
	WasExpired:    "already_expired",
	WasTied:       "stale_same_time",
	WasPastExpiry: "past_expiry",
	WasChanged:    "changed",
}

// String returns the outcome as metrics and logs spell it.
func (o Outcome) String() string {
	if o == 0 || o >= outcomeSentinel {
		return "unknown"
	}
	return outcomeNames[o]
}

// A Status is the part of a timer that decides the effect of a command. A key without a timer
// has the zero value.
type Status struct {
	State   State
	Version Version // of the newest command that took effect
}

// Schedule returns the status after a [ScheduleTimer] of a version, and the
// outcome of that command.
func (s Status) Schedule(v Version) (Status, Outcome) {
	outcome := s.unchanged(v)
	switch {
	case outcome != 0:
		return s, outcome
	case s.State == Scheduled:
		outcome = DidReschedule
	default:
		outcome = DidSchedule
	}
	return Status{State: Scheduled, Version: v}, outcome
}

// Cancel returns the status after a [CancelTimer] of a version, and the outcome of
// that command. A timer that is Canceled already gets the newer version. Otherwise an older
// ScheduleTimer, which the command supersedes, could still fire.
func (s Status) Cancel(v Version) (Status, Outcome) {
	outcome := s.unchanged(v)
	switch {
	case outcome != 0:
		return s, outcome
	case s.State == Canceled:
		outcome = WasCanceled
	default:
		outcome = DidCancel
	}
	return Status{State: Canceled, Version: v}, outcome
}

// Move returns the status after a [ScheduleTimer] that moves a timer, and the outcome of that
// command.
func (s Status) Move(c *ScheduleTimer) (Status, Outcome) {
	outcome := s.unchanged(c.Version)
	switch {
	case outcome != 0:
		return s, outcome
	case s != Status{Scheduled, c.Moves}:
		return s, WasChanged
	case ValidateExpiresAt("expiresAt", c.ExpiresAt, c.DueAt) != nil:
		return s, WasPastExpiry
	}
	return Status{Scheduled, c.Version}, DidReschedule
}

// Follow returns a version for a command that must take effect: v if it is newer than the
// version of the timer, and a version of the millisecond after that otherwise.
func (s Status) Follow(v Version) Version {
	if v.Compare(s.Version) <= 0 {
		v.TimestampMS = s.Version.TimestampMS + 1
	}
	return v
}

// Fired returns the status after an event of the timer that was published, and DidFire.
// It returns WasReached if the event changes nothing, because the timer is Reached or Expired,
// or because its command came more than keep after the event: the timer that fired had been
// purged by then.
func (s Status) Fired(e DueTimeReached, keep time.Duration) (Status, Outcome) {
	if s.State.Marked() || s.State != "" && s.Version.TimestampMS > e.ReachedAt.Add(keep).UnixMilli() {
		return s, WasReached
	}
	return Status{State: e.State(), Version: s.Version}, DidFire
}

// wasMarked returns the outcome of a command that comes after the event of the timer.
func wasMarked(s State) Outcome {
	if s == Expired {
		return WasExpired
	}
	return WasReached
}

// unchanged returns why a command of a version has no effect, or zero if it is
// newer and the timer has neither fired nor expired.
func (s Status) unchanged(v Version) Outcome {
	switch {
	case s == Status{}:
		return 0
	case v == s.Version:
		return WasSame
	case s.State.Marked():
		return wasMarked(s.State)
	case v.TimestampMS < s.Version.TimestampMS:
		return WasStale
	case v.Compare(s.Version) < 0:
		return WasTied
	}
	return 0
}

// ScheduleOutcome returns the outcome of a [ScheduleTimer] of a version, as far as the entry
// tells: DidSchedule if the command set its due time; WasReached, WasExpired or WasStale if the
// command had no effect, or has none any more; and zero if it was not handled yet.
func (e Entry) ScheduleOutcome(v Version) Outcome {
	outcome := Status{e.State, e.Version}.unchanged(v)
	switch outcome {
	case WasSame:
		return DidSchedule
	case WasTied:
		return WasStale
	}
	return outcome
}

// CancelOutcome returns the outcome of a [CancelTimer] of a version, as far as the entry tells:
// DidCancel if the timer is Canceled, by this command or before; WasReached, WasExpired or
// WasStale if the command has no effect; and zero if it was not handled yet.
func (e Entry) CancelOutcome(v Version) Outcome {
	switch {
	case e.State.Marked():
		return wasMarked(e.State)
	case e.State == Canceled:
		return DidCancel
	case e.Version.Compare(v) > 0:
		return WasStale
	}
	return 0
}
