package timer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// MaxCancelTimers is the most service calls that one [CancelTimers] may name.
const MaxCancelTimers = 500

// cancelStep is the most timers of a selection that are canceled in one transaction. Other
// commands do not wait long for a transaction of this size.
const cancelStep = 500

// A CancelTimers cancels many timers of a tenant with one message.
type CancelTimers struct {
	TenantID      TenantID
	Version                 // of the message
	Of            Selection // which timers
	CorrelationID string    // trace of the request; may be empty
	Trace         Trace     // where the command came from; may be empty
	Receipt       bool      // whether each timer gets a [Receipt]; not on the wire
	Latest        bool      // an older Version is replaced by one that follows the timer's; not on the wire
}

// A Selection selects timers of a tenant. Exactly one field is set.
type Selection struct {
	Calls         []ServiceCallID // timers of these service calls; each without a timer leaves a tombstone, as by [CancelTimer]
	Prefix        string          // timers whose service call begins with it
	CorrelationID string          // timers that carry it
}

// Validate returns an [InvalidError] unless every field is well formed.
func (c CancelTimers) Validate() error {
	return cmp.Or(c.TenantID.Validate(), c.Version.Validate(), validateOptional("correlationId", c.CorrelationID), c.Of.Validate(""))
}

// Selects reports whether the selection has the timer of a service call, which carries a
// correlation id or none.
func (s Selection) Selects(call ServiceCallID, correlationID string) bool {
	switch {
	case s.Prefix != "":
		return strings.HasPrefix(string(call), s.Prefix)
	case s.CorrelationID != "":
		return correlationID == s.CorrelationID
	}
	return slices.Contains(s.Calls, call)
}

// Validate returns an [InvalidError] unless exactly one field is set, and well formed. In the
// detail the names of fields begin with in, for example "payload.".
func (s Selection) Validate(in string) error {
	set := 0
	for _, is := range []bool{len(s.Calls) > 0, s.Prefix != "", s.CorrelationID != ""} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return Invalid(ReasonMissingField, "give exactly one of %[1]sserviceCallIds, %[1]sprefix and %[1]scorrelationId", in)
	case s.CorrelationID != "":
		return ValidateID(in+"correlationId", s.CorrelationID)
	case s.Prefix != "":
		return ValidatePrefix(in+"prefix", s.Prefix)
	case len(s.Calls) > MaxCancelTimers:
		return Invalid(ReasonBadField, "%sserviceCallIds has more than %d items; send the rest in another message", in, MaxCancelTimers)
	}
	seen := make(map[ServiceCallID]int, len(s.Calls))
	for i, call := range s.Calls {
		if err := call.Validate(); err != nil {
			return Invalid(ReasonBadField, "%sserviceCallIds[%d] is %s, which is no service call id", in, i, Quote(string(call)))
		}
		if before, again := seen[call]; again {
			return Invalid(ReasonBadField, "%sserviceCallIds[%d] is also in [%d]; name each service call once", in, i, before)
		}
		seen[call] = i
	}
	return nil
}

// ValidatePrefix returns an [InvalidError] unless a service call id may begin with a prefix.
func ValidatePrefix(field, prefix string) error {
	return validateName(field, prefix, maxServiceCallIDBytes, "_.:-", "", "_ . : -")
}

// optionalPrefix validates a prefix that may be empty.
func optionalPrefix(field, prefix string) error {
	if prefix == "" {
		return nil
	}
	return ValidatePrefix(field, prefix)
}

// Commands returns a command for each service call that the message names.
func (c CancelTimers) Commands() []CancelTimer {
	commands := make([]CancelTimer, len(c.Of.Calls))
	for i, call := range c.Of.Calls {
		commands[i] = c.of(call)
	}
	return commands
}

func (c CancelTimers) of(call ServiceCallID) CancelTimer {
	return CancelTimer{Key: Key{c.TenantID, call}, Version: c.Version, CorrelationID: c.CorrelationID, Trace: c.Trace, Receipt: c.Receipt, Latest: c.Latest}
}

// Filter returns which timers a prefix or a correlation id selects.
func (c CancelTimers) Filter() Filter {
	return Filter{TenantID: c.TenantID, State: Scheduled, Prefix: c.Of.Prefix, CorrelationID: c.Of.CorrelationID}
}

// CancelCounts count the timers of a [CancelTimers] by its effect on them.
type CancelCounts struct {
	Canceled int // timers that are Canceled now
	Stale    int // timers that a newer command has set
	Reached  int // timers that have fired
	Expired  int // timers that have expired
}

// add counts the results of commands, and returns the first error.
func (n *CancelCounts) add(results []Result) error {
	for _, r := range results {
		switch {
		case r.Err != nil:
			return r.Err
		case r.Outcome == WasStale, r.Outcome == WasTied:
			n.Stale++
		case r.Outcome == WasReached:
			n.Reached++
		case r.Outcome == WasExpired:
			n.Expired++
		default:
			n.Canceled++
		}
	}
	return nil
}

// CancelSelected cancels the timers that a command selects. If it selects them by a prefix or
// a correlation id, that takes several transactions. List returns a page of a filter, and
// cancel applies commands in one transaction. After an error CancelSelected may be called
// again with the same command.
func CancelSelected(
	ctx context.Context, c CancelTimers, list func(context.Context, Filter) (Page, error), cancel func(context.Context, ...CancelTimer) ([]Result, error),
) (n CancelCounts, err error) {
	if len(c.Of.Calls) > 0 {
		results, err := cancel(ctx, c.Commands()...)
		return n, cmp.Or(err, n.add(results))
	}
	f := c.Filter()
	f.Limit = cancelStep
	err = EachPage(ctx, &f, list, func(entries []Entry) error {
		var older []CancelTimer
		for _, e := range entries {
			if c.Latest || e.Version.Compare(c.Version) < 0 {
				older = append(older, c.of(e.ServiceCallID))
			} else {
				n.Stale++
			}
		}
		if len(older) == 0 {
			return nil
		}
		results, err := cancel(ctx, older...)
		return cmp.Or(err, n.add(results))
	})
	return n, err
}

// EachPage calls yield with the timers of each page of a filter, beginning at its After. It
// ends with the first error of yield or list, and then After names the page where it ended.
func EachPage(ctx context.Context, f *Filter, list func(context.Context, Filter) (Page, error), yield func([]Entry) error) error {
	for {
		page, err := list(ctx, *f)
		if err != nil {
			return fmt.Errorf("list timers of %s: %w", f.TenantID, err)
		}
		if err := yield(page.Entries); err != nil {
			return err
		}
		if f.After = page.Next; f.After == "" {
			return nil
		}
	}
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
