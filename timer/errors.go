package timer

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid is what no retry can help: the message becomes a dead letter.
	// Every [InvalidError] is one.
	ErrInvalid = errors.New("invalid")
	// ErrFatal says that the store can no longer be trusted (corrupt, replaced,
	// or newer than this binary): stop accepting, turn red, end.
	ErrFatal = errors.New("fatal")
	// ErrNotFound says that the tenant has no such timer.
	ErrNotFound = errors.New("timer not found")
)

// A Reason says why a command is invalid, in one stable word for machines.
type Reason string

// Reasons, as they stand in the header of a dead letter.
const (
	ReasonTooLarge       Reason = "too_large"       // more bytes than allowed
	ReasonNotUTF8        Reason = "not_utf8"        // bytes that are no UTF-8
	ReasonNotJSON        Reason = "not_json"        // not one well-formed JSON object
	ReasonTooDeep        Reason = "too_deep"        // nested deeper than allowed
	ReasonDuplicateKey   Reason = "duplicate_key"   // an object names a key twice
	ReasonMissingField   Reason = "missing_field"   // a field is absent, null or empty
	ReasonBadField       Reason = "bad_field"       // a field has the wrong type or form
	ReasonBadTime        Reason = "bad_time"        // a time is not RFC 3339 with a zone, or out of range
	ReasonTenantMismatch Reason = "tenant_mismatch" // envelope, payload and topic disagree on the tenant
	ReasonKeyMismatch    Reason = "key_mismatch"    // aggregateId is not the service call
	ReasonBeyondHorizon  Reason = "beyond_horizon"  // due later than the service accepts
	ReasonRefused        Reason = "refused"         // the database refuses the row, such as a foreign key
	ReasonOverQuota      Reason = "over_quota"      // more than its tenant may have
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
