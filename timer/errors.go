package timer

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrInvalid is an error that no retry can resolve: the message becomes a dead
	// letter. Every [InvalidError] is one.
	ErrInvalid = errors.New("invalid")
	// ErrFatal means that the store cannot be used any more (corrupt, replaced, or
	// newer than this binary): stop accepting commands, report unhealthy, exit.
	ErrFatal = errors.New("fatal")
	// ErrLocked means that another transaction held a lock for too long, for this
	// command or for another one in its transaction.
	ErrLocked = errors.New("another transaction holds the timer")
	// ErrNotFound means that the tenant has no such timer.
	ErrNotFound = errors.New("timer not found")

	// ErrStale means that a command had no effect: a newer one for the same key was
	// accepted before.
	ErrStale = errors.New("a newer command was accepted before")
	// ErrReached means that a command had no effect: the timer has fired.
	ErrReached = errors.New("the timer has fired")
	// ErrExpired means that a command had no effect: the timer has expired.
	ErrExpired = errors.New("the timer has expired")
	// ErrOverQuota means that timers exceed a quota of their tenant.
	ErrOverQuota = errors.New("over the quota of the tenant")
)

// A Reason is why a command is invalid, as a stable identifier for machines.
type Reason string

// Reasons, as in the header of a dead letter.
const (
	ReasonTooLarge       Reason = "too_large"       // more bytes than allowed
	ReasonNotUTF8        Reason = "not_utf8"        // bytes that are not UTF-8
	ReasonNotJSON        Reason = "not_json"        // not one well-formed JSON object
	ReasonTooDeep        Reason = "too_deep"        // nested deeper than allowed
	ReasonDuplicateKey   Reason = "duplicate_key"   // an object has a key twice
	ReasonMissingField   Reason = "missing_field"   // a field is absent, null or empty
	ReasonBadField       Reason = "bad_field"       // a field has the wrong type or form
	ReasonBadTime        Reason = "bad_time"        // a time is not RFC 3339 with a zone or out of range, or timestampMs far from the clock
	ReasonTenantMismatch Reason = "tenant_mismatch" // envelope, payload and topic disagree on the tenant
	ReasonKeyMismatch    Reason = "key_mismatch"    // aggregateId is not the service call
	ReasonUnknownType    Reason = "unknown_type"    // the type is no command
	ReasonBeyondHorizon  Reason = "beyond_horizon"  // due later than the service accepts
	ReasonRefused        Reason = "refused"         // the database refuses the row, for example by a foreign key
	ReasonOverQuota      Reason = "over_quota"      // more than its tenant may have
	ReasonNotHandled     Reason = "not_handled"     // its handling failed for as long as a message may wait
)

// An InvalidError explains why something is invalid. errors.Is(err,
// [ErrInvalid]) holds for it.
type InvalidError struct {
	Reason Reason // for machines
	Detail string // for people; never more than a few hundred bytes of the input
}

// Invalid returns an [InvalidError] with a formatted detail.
func Invalid(reason Reason, format string, args ...any) error {
	return &InvalidError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// Error returns "invalid: detail".
func (e *InvalidError) Error() string { return "invalid: " + e.Detail }

// Is makes every InvalidError an [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// A LaterError is the answer of a handler that wants its event again, see [Later].
type LaterError struct {
	After time.Duration // from the moment that the handler returned
}

// Later returns an error by which the handler of an event has it handed over again after a
// time, under the same id, also if the process starts anew meanwhile. That is no failure: no
// attempt is counted and nothing is reported. The error may be wrapped, with a reason for people.
// With a time of zero or less the event comes again soon.
func Later(after time.Duration) error { return &LaterError{After: after} }

// Error says when the event is handed over again.
func (e *LaterError) Error() string {
	return "the handler wants the event again after " + e.After.String()
}
