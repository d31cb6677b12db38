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

// MaxCancelTimers is the most service calls that one [CancelTimers] or [RescheduleTimers] may
// name.
const MaxCancelTimers = 500

// selectionStep is the most timers of a selection that are changed in one transaction. Other
// commands do not wait long for a transaction of this size.
const selectionStep = 500

// maxNamed is how many timers the counts of a selection name.
const maxNamed = 10

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

// A RescheduleTimers moves many timers of a tenant to a due time with one message: those of the
// selection that are Scheduled and older. Their data, expiry and correlation id stay. A timer
// that would be due after it expires stays as it is.
type RescheduleTimers struct {
	TenantID      TenantID
	Version                 // of the message
	Of            Selection // which timers
	DueAt         time.Time // when they fire; a time in the past is due at once
	CorrelationID string    // trace of the request; may be empty
	Trace         Trace     // where the command came from; may be empty
}

// A Selection selects timers of a tenant. Exactly one field is set.
type Selection struct {
	Calls         []ServiceCallID // timers of these service calls; of a [CancelTimers] each without a timer leaves a tombstone, as by [CancelTimer]
	Prefix        string          // timers whose service call begins with it
	CorrelationID string          // timers that carry it
}

// A Move says when timers fire. Exactly one field is set.
type Move struct {
	To time.Time     // a time; in the past: at once
	By time.Duration // how much later than before; negative: earlier
}

// A SelectionCommand is the form in which a [CancelTimers] or a [RescheduleTimers] is applied.
type SelectionCommand struct {
	CancelTimers           // the command; of a RescheduleTimers the fields that both have
	Move                   // when the timers fire; the zero Move: they are canceled
	NotAfter     time.Time // a timer is not moved behind it; zero: to any time
}

// SelectionOf returns the form in which a message is applied, and whether it is a [CancelTimer], a
// [CancelTimers] or a [RescheduleTimers].
func SelectionOf(message any) (c SelectionCommand, ok bool) {
	switch m := message.(type) {
	case CancelTimer:
		return CancelTimers{m.TenantID, m.Version, Selection{Calls: []ServiceCallID{m.ServiceCallID}}, m.CorrelationID, m.Trace, m.Receipt, m.Latest}.Command(), true
	case CancelTimers:
		return m.Command(), true
	case RescheduleTimers:
		return m.Command(), true
	}
	return c, false
}

// Command returns the form in which the command is applied.
func (c CancelTimers) Command() SelectionCommand { return SelectionCommand{CancelTimers: c} }

// Command returns the form in which the command is applied.
func (c RescheduleTimers) Command() SelectionCommand {
	return SelectionCommand{CancelTimers{c.TenantID, c.Version, c.Of, c.CorrelationID, c.Trace, false, false}, Move{To: c.DueAt}, time.Time{}}
}

// Reschedule returns the command as a message has it, if it moves timers to a time.
func (c SelectionCommand) Reschedule() RescheduleTimers {
	return RescheduleTimers{c.TenantID, c.Version, c.Of, c.To, c.CorrelationID, c.Trace}
}

// Validate returns an [InvalidError] unless every field is well formed.
func (c CancelTimers) Validate() error {
	return cmp.Or(c.TenantID.Validate(), c.Version.Validate(), validateOptional("correlationId", c.CorrelationID), c.Of.Validate(""))
}

// Validate returns an [InvalidError] unless every field is well formed.
func (c RescheduleTimers) Validate() error {
	return cmp.Or(c.Command().CancelTimers.Validate(), ValidateDueAt(c.DueAt))
}

// Validate returns an [InvalidError] unless every field is well formed.
func (c SelectionCommand) Validate() error {
	if c.IsMove() && c.By == 0 {
		return c.Reschedule().Validate()
	}
	return c.CancelTimers.Validate()
}

// Validate returns an [InvalidError] unless exactly one field is set, and well formed.
func (m Move) Validate() error {
	switch {
	case m.To.IsZero() == (m.By == 0):
		return Invalid(ReasonMissingField, "say either to which time or by how much timers are moved")
	case m.By == 0:
		return ValidateDueAt(m.To)
	}
	return nil
}

// IsMove reports whether timers are moved, and not canceled.
func (c SelectionCommand) IsMove() bool { return c.Move != Move{} }

// IsLasting reports whether the command has the same effect whatever commands come before or
// after it: it cancels service calls by name, and leaves tombstones.
func (c SelectionCommand) IsLasting() bool { return len(c.Of.Calls) > 0 && !c.IsMove() }

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

// A Lister returns a page of timers, as [Reader] does.
type Lister func(context.Context, Filter) (Page, error)

// Within returns a Lister of the timers of the selection. If it names service calls, their
// timers are one page, of which the filter has the tenant and the state.
func (s Selection) Within(list Lister) Lister {
	if len(s.Calls) == 0 {
		return list
	}
	return func(ctx context.Context, f Filter) (page Page, err error) {
		for _, call := range s.Calls {
			one, err := list(ctx, Filter{TenantID: f.TenantID, Prefix: string(call), Limit: 1}) // no service call with this prefix comes before it
			if err != nil {
				return page, err
			}
			for _, e := range one.Entries {
				if e.ServiceCallID == call && (f.State == "" || e.State == f.State) {
					page.Entries = append(page.Entries, e)
				}
			}
		}
		return page, nil
	}
}

// Moved returns the command that moves a timer as it was read.
func (c SelectionCommand) Moved(e Entry) ScheduleTimer {
	m := e.Command()
	m.Moves, m.Version, m.DueAt, m.Trace, m.Receipt = e.Version, c.Version, c.To, cmp.Or(c.Trace, e.Trace), c.Receipt
	switch {
	case c.By != 0:
		m.DueAt, m.TimestampMS = e.DueAt.Add(c.By), e.TimestampMS+1
	case c.Latest:
		m.Version = Status{Version: e.Version}.Follow(c.Version)
	}
	return m
}

// Refuses reports whether the command can't move a timer, because it would be due after it
// expires, or too late.
func (c SelectionCommand) Refuses(e Entry) bool {
	due := c.Moved(e).DueAt
	return ValidateExpiresAt("", e.ExpiresAt, due) != nil || ValidateDueAt(due) != nil || !c.NotAfter.IsZero() && due.After(c.NotAfter)
}

// A SelectionStep has the commands of one transaction: some that cancel, or some that move.
type SelectionStep struct {
	Cancels []CancelTimer
	Moves   []ScheduleTimer
}

// Apply applies the commands.
func (s SelectionStep) Apply(ctx context.Context, now time.Time, to Commands) ([]Result, error) {
	if len(s.Moves) > 0 {
		return to.Schedule(ctx, now, s.Moves...)
	}
	return to.Cancel(ctx, now, s.Cancels...)
}

// Doing returns the operation of the commands, for errors: "cancel" or "reschedule".
func (s SelectionStep) Doing() string {
	if len(s.Moves) > 0 {
		return "reschedule"
	}
	return "cancel"
}

// Len returns the number of commands.
func (s SelectionStep) Len() int { return len(s.Cancels) + len(s.Moves) }

// At returns key, version and due time of a command; of one that cancels that is zero.
func (s SelectionStep) At(i int) (Key, Version, time.Time) {
	if len(s.Moves) > 0 {
		return s.Moves[i].Key, s.Moves[i].Version, s.Moves[i].DueAt
	}
	return s.Cancels[i].Key, s.Cancels[i].Version, time.Time{}
}

// Soonest returns the earliest due time that moves have set; zero if none has.
func (s SelectionStep) Soonest(results []Result) (soonest time.Time) {
	for i, r := range results {
		if _, _, due := s.At(i); r.Outcome == DidReschedule && (soonest.IsZero() || due.Before(soonest)) {
			soonest = due
		}
	}
	return soonest
}

// SelectionCounts count the timers of a selection by the effect of a command on them.
type SelectionCounts struct {
	Changed int             // timers that were moved, or are Canceled now
	Stale   int             // timers that a newer command has set
	Reached int             // timers that have fired
	Expired int             // timers that have expired
	Refused int             // timers that would be due after they expire, or too late, and stay as they are
	Decided int             // timers on which no older command can have an effect any more
	Named   []ServiceCallID // the first of the refused
}

// CancelCounts count the timers of a [CancelTimers] by its effect on them.
type CancelCounts struct {
	Canceled int // timers that are Canceled now
	Stale    int // timers that a newer command has set
	Reached  int // timers that have fired
	Expired  int // timers that have expired
}

// Canceled returns the counts of a command that cancels.
func (n SelectionCounts) Canceled() CancelCounts {
	return CancelCounts{n.Changed, n.Stale, n.Reached, n.Expired}
}

// Decides reports whether the timers of all service calls that a command names are such that no
// older command can have an effect on them any more.
func (n SelectionCounts) Decides(c SelectionCommand) bool {
	return len(c.Of.Calls) > 0 && n.Decided == len(c.Of.Calls)
}

func (n *SelectionCounts) refuse(call ServiceCallID) {
	if n.Refused++; len(n.Named) < maxNamed {
		n.Named = append(n.Named, call)
	}
}

// count counts the results of a step. It returns the first error, or errChanged if a timer is
// not any more as it was read.
func (n *SelectionCounts) count(s SelectionStep, results []Result) (err error) {
	for i, r := range results {
		key, _, _ := s.At(i)
		n.Decided++
		switch {
		case r.Err != nil:
			return r.Err
		case r.Outcome == WasChanged:
			err = errChanged
		case r.Outcome == WasSame && len(s.Moves) > 0: // it was moved before
		case r.Outcome == WasStale, r.Outcome == WasTied:
			n.Stale++
		case r.Outcome == WasReached:
			n.Reached++
		case r.Outcome == WasExpired:
			n.Expired++
		case r.Outcome == WasPastExpiry:
			n.Decided--
			n.refuse(key.ServiceCallID)
		default:
			n.Changed++
		}
	}
	return err
}

// maxAgain is how often a page is read again. Then the command is tried again as after any error.
const maxAgain = 100

// errChanged says that a page of timers has to be read again.
var errChanged = errors.New("a timer changed after it was read")

// ApplySelected cancels or moves the timers that a command selects. List returns a page of a
// filter, and apply applies a step, which is one transaction. Service calls that are named take
// one step, a prefix or a correlation id many. After an error ApplySelected may be called again
// with the same command, also with one that moves timers by a duration: it leaves alone the
// timers that it has moved.
func ApplySelected(ctx context.Context, c SelectionCommand, list Lister, apply func(context.Context, SelectionStep) ([]Result, error)) (n SelectionCounts, err error) {
	f := c.Filter()
	f.Limit = selectionStep
	switch {
	case c.IsLasting():
		s := SelectionStep{Cancels: c.Commands()}
		results, err := apply(ctx, s)
		return n, cmp.Or(err, n.count(s, results))
	case len(c.Of.Calls) > 0:
		f.State = "" // the results say why the others do not wait
	}
	err = EachPage(ctx, &f, c.Of.Within(list), func(entries []Entry) error {
		s, page := c.step(entries)
		if s.Len() == 0 {
			n.add(page)
			return nil
		}
		results, err := apply(ctx, s)
		if err = cmp.Or(err, page.count(s, results)); err != nil {
			page = SelectionCounts{Changed: page.Changed} // the others are read and counted again
		}
		n.add(page)
		return err
	})
	return n, err
}

// step returns the commands for timers that were read, and counts timers that need none.
func (c SelectionCommand) step(entries []Entry) (s SelectionStep, n SelectionCounts) {
	for _, e := range entries {
		switch {
		case e.State == Canceled: // an older command may schedule it
		case c.IsMove() && e.CommandID == c.CommandID: // was moved by the command
			n.Decided++
		case c.Of.Calls == nil && !c.Latest && c.By == 0 && e.Version.Compare(c.Version) >= 0:
			n.Decided++
			n.Stale++
		case !c.IsMove():
			s.Cancels = append(s.Cancels, c.of(e.ServiceCallID))
		case !e.State.Marked() && c.By != 0 && c.Refuses(e):
			n.refuse(e.ServiceCallID)
		default: // the store refuses the move if its time is not before the expiry
			s.Moves = append(s.Moves, c.Moved(e))
		}
	}
	return s, n
}

func (n *SelectionCounts) add(page SelectionCounts) {
	n.Changed, n.Stale, n.Reached, n.Expired = n.Changed+page.Changed, n.Stale+page.Stale, n.Reached+page.Reached, n.Expired+page.Expired
	n.Decided, n.Refused = n.Decided+page.Decided, n.Refused+page.Refused
	n.Named = append(n.Named, page.Named[:min(len(page.Named), maxNamed-len(n.Named))]...)
}

// EachPage calls yield with the timers of each page of a filter, beginning at its After. It
// ends with the first error of yield or list, and then After names the page where it ended.
func EachPage(ctx context.Context, f *Filter, list Lister, yield func([]Entry) error) error {
	for again := 0; ; {
		page, err := list(ctx, *f)
		if err != nil {
			return fmt.Errorf("list timers of %s: %w", f.TenantID, err)
		}
		switch err := yield(page.Entries); {
		case errors.Is(err, errChanged) && again < maxAgain:
			again++
			continue
		case err != nil:
			return err
		}
		again = 0
		if f.After = page.Next; f.After == "" {
			return nil
		}
	}
}
