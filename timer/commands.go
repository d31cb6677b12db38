package timer

import (
	"cmp"
	"errors"
	"time"
)

// MaxScheduleTimers is the most timers that one [ScheduleTimers] may hold.
const MaxScheduleTimers = 500

// A ScheduleTimers is up to [MaxScheduleTimers] commands that arrived in one
// message, for imports and campaigns. It is accepted or refused as a whole.
type ScheduleTimers struct {
	TenantID TenantID
	Version                  // of the message
	Commands []ScheduleTimer // each for another service call, with the tenant, version, correlation id and trace of the message
}

// Validate returns an [InvalidError] unless every command is well formed, agrees with the
// message and names another service call. The detail names the first command that is wrong,
// for example "timers[17].dueAt is missing".
func (c ScheduleTimers) Validate() error {
	if err := cmp.Or(c.TenantID.Validate(), c.Version.Validate()); err != nil {
		return err
	}
	switch n := len(c.Commands); {
	case n == 0:
		return Invalid(ReasonMissingField, "timers is empty; send 1 to %d timers in a message", MaxScheduleTimers)
	case n > MaxScheduleTimers:
		return Invalid(ReasonBadField, "timers has more than %d items; send the rest in another message", MaxScheduleTimers)
	}
	correlationID, trace := c.Commands[0].CorrelationID, c.Commands[0].Trace
	if err := validateOptional("correlationId", correlationID); err != nil {
		return err
	}
	index := make(map[ServiceCallID]int, len(c.Commands))
	for i, command := range c.Commands {
		previous, repeated := index[command.ServiceCallID]
		index[command.ServiceCallID] = i
		err := command.ServiceCallID.Validate()
		switch {
		case err != nil:
		case command.TenantID != c.TenantID:
			err = Invalid(ReasonTenantMismatch, "tenantId %s is not %s of the message", Quote(string(command.TenantID)), Quote(string(c.TenantID)))
		case command.Version != c.Version || command.CorrelationID != correlationID || command.Trace != trace:
			err = Invalid(ReasonBadField, "version, correlationId or trace differs from the message")
		case repeated:
			err = Invalid(ReasonBadField, "serviceCallId %s is also in timers[%d]; name each service call once", Quote(string(command.ServiceCallID)), previous)
		default:
			err = cmp.Or(ValidateDueAt(command.DueAt), ValidateExpiresAt("expiresAt", command.ExpiresAt, command.DueAt), ValidateData("data", command.Data))
		}
		if invalid, ok := errors.AsType[*InvalidError](err); ok {
			return Invalid(invalid.Reason, "timers[%d].%s", i, invalid.Detail)
		}
	}
	return nil
}

// MessageLen returns how many commands at the beginning have the tenant and the version of the
// first one. They come from one message, and are applied together or not at all.
func MessageLen(commands []ScheduleTimer) int {
	n := min(1, len(commands))
	for n < len(commands) && commands[n].Version == commands[0].Version && commands[n].TenantID == commands[0].TenantID {
		n++
	}
	return n
}

// A ReceiptType is the result of a command, and the type of the receipt's message.
type ReceiptType string

// Types of receipts.
const (
	TimerScheduled ReceiptType = "TimerScheduled" // the timer has the command's due time
	TimerCanceled  ReceiptType = "TimerCanceled"  // the timer is Canceled, by this command or before
	TimerIgnored   ReceiptType = "TimerIgnored"   // the command has no effect, for one of the reasons below
	TimerRejected  ReceiptType = "TimerRejected"  // the command is invalid: a dead letter has it
)

// Reasons of a TimerIgnored. A TimerRejected has the reason of its dead letter.
const (
	IgnoredStale   Reason = "stale"   // a newer command was accepted before
	IgnoredReached Reason = "reached" // the timer has fired
	IgnoredExpired Reason = "expired" // the timer has expired

	IgnoredPastExpiry Reason = "past_expiry" // the timer would be due after it expires
)

// A Receipt tells the producer of a command its result. TimerScheduled and TimerCanceled are
// final. If the command is delivered again later and ignored then, its first result stays
// true.
type Receipt struct {
	Type          ReceiptType
	Key                     // without a service call if a rejected command has no valid one
	ID            string    // of the receipt, the same at every delivery of the command with the same answer; set by the envelope
	CommandID     string    // empty if a rejected command has no valid one
	CorrelationID string    // of the command; may be empty
	Trace         Trace     // of the command; may be empty
	DueAt         time.Time // of a TimerScheduled
	Reason        Reason    // of a TimerIgnored or TimerRejected
	Detail        string    // the reason of a TimerRejected, for people
	At            time.Time // when the command was handled
}

// receiptsOf has the type and the reason of the receipt of each outcome. A command that
// was accepted before has none.
var receiptsOf = [outcomeSentinel]Receipt{
	DidSchedule:   {Type: TimerScheduled},
	DidReschedule: {Type: TimerScheduled},
	DidCancel:     {Type: TimerCanceled},
	WasCanceled:   {Type: TimerCanceled},
	WasStale:      {Type: TimerIgnored, Reason: IgnoredStale},
	WasTied:       {Type: TimerIgnored, Reason: IgnoredStale},
	WasReached:    {Type: TimerIgnored, Reason: IgnoredReached},
	WasExpired:    {Type: TimerIgnored, Reason: IgnoredExpired},
	WasPastExpiry: {Type: TimerIgnored, Reason: IgnoredPastExpiry},
}

// receipt returns the receipt of a command, and whether the command wants one. The type is
// empty if the outcome has no receipt.
func (c ScheduleTimer) receipt(o Outcome) (r Receipt, wanted bool) {
	r = receiptsOf[o]
	r.Key, r.CommandID, r.CorrelationID, r.Trace = c.Key, c.CommandID, c.CorrelationID, c.Trace
	if r.Type == TimerScheduled {
		r.DueAt = RoundUp(c.DueAt)
	}
	return r, c.Receipt
}

func (c CancelTimer) receipt(o Outcome) (r Receipt, wanted bool) {
	r = receiptsOf[o]
	r.Key, r.CommandID, r.CorrelationID, r.Trace = c.Key, c.CommandID, c.CorrelationID, c.Trace
	return r, c.Receipt
}

// Receipts returns the receipts of commands that were handled at a time. A command has none if
// it does not want one, if it was accepted before and had its receipt then, or if it is
// refused.
func Receipts[C interface {
	receipt(o Outcome) (Receipt, bool)
}](commands []C, results []Result, at time.Time) (receipts []Receipt) {
	for i, c := range commands {
		if r, wanted := c.receipt(results[i].Outcome); wanted && r.Type != "" {
			r.At = RoundDown(at)
			receipts = append(receipts, r)
		}
	}
	return receipts
}
