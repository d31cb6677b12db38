package timer

import (
	"cmp"
	"time"
)

// A ScheduleTimer asks for a [DueTimeReached] at DueAt. If the key has a timer
// already, the newer command wins.
type ScheduleTimer struct {
	Key
	Version
	DueAt         time.Time // when to fire; a time in the past is due at once
	CorrelationID string    // trace of the request; may be empty
	Trace         Trace     // where the command came from; may be empty
	Data          string    // a JSON value as it was written, for the event; empty if there is none
	Receipt       bool      // whether a [Receipt] is wanted; not on the wire
}

// Validate returns an [InvalidError] unless every field is well formed. Whether
// Data is JSON is for the package envelope to say.
func (c ScheduleTimer) Validate() error {
	return cmp.Or(c.Key.Validate(), c.Version.Validate(), ValidateDueAt(c.DueAt), ValidateData("data", c.Data), validateOptional("correlationId", c.CorrelationID))
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
	ReachedAt     time.Time // when it did, by the service's clock; never before DueAt
	CorrelationID string    // that of the command; may be empty
	Trace         Trace     // that of the command, or of the firing if that is traced; may be empty
	Data          string    // that of the command, byte for byte; may be empty
}

// Lateness is how long after its due time the timer fired.
func (e DueTimeReached) Lateness() time.Duration { return e.ReachedAt.Sub(e.DueAt) }

// A State is that of a timer.
type State string

// The states of a timer. They never go back from Reached.
const (
	Scheduled State = "Scheduled" // waits for its due time
	Reached   State = "Reached"   // fired; final
	Canceled  State = "Canceled"  // by a command; also a tombstone for a key that had no timer
)

// An Entry is a timer as a store keeps it.
type Entry struct {
	Key
	Version                 // of the newest command that took effect
	State         State     //
	CorrelationID string    // that of the command which set the due time; may be empty
	Trace         Trace     // that of the command which set the due time; may be empty
	Data          string    // that of the command which set the due time; empty if it had none, or if Canceled
	DueAt         time.Time // when it fires; zero for a tombstone
	RegisteredAt  time.Time // when the first command for the key was accepted; never moves
	ReachedAt     time.Time // when it fired; zero unless Reached
	CanceledAt    time.Time // when it was last canceled; zero unless Canceled
}

// Event returns the DueTimeReached of an entry that is Reached. Its ID is not
// set yet.
func (e Entry) Event() DueTimeReached {
	return DueTimeReached{
		Key:           e.Key,
		CommandID:     e.CommandID,
		DueAt:         e.DueAt,
		ReachedAt:     e.ReachedAt,
		CorrelationID: e.CorrelationID,
		Trace:         e.Trace,
		Data:          e.Data,
	}
}

// An Outcome is the effect of a command.
type Outcome uint8

// Outcomes. The first three changed the timer, the others did not.
const (
	DidSchedule     Outcome = iota + 1 // the timer is new, or Scheduled again after Canceled
	DidReschedule                      // due time, correlation and version were replaced
	DidCancel                          // the timer is Canceled now
	WasSame                            // the very command was accepted before
	WasStale                           // a newer command was accepted before
	WasReached                         // the timer has fired; Reached is final
	WasCanceled                        // the timer was Canceled already; only its version moved
	outcomeSentinel                    //
)

var outcomeNames = [outcomeSentinel]string{
	DidSchedule:   "scheduled",
	DidReschedule: "rescheduled",
	DidCancel:     "canceled",
	WasSame:       "duplicate",
	WasStale:      "stale",
	WasReached:    "already_reached",
	WasCanceled:   "already_canceled",
}

// String returns the outcome as metrics and logs spell it.
func (o Outcome) String() string {
	if o == 0 || o >= outcomeSentinel {
		return "unknown"
	}
	return outcomeNames[o]
}
