package timer

import "time"

// A ReceiptType says what became of a command, as the type of the receipt's message.
type ReceiptType string

// Types of receipts.
const (
	TimerScheduled ReceiptType = "TimerScheduled" // the timer has the command's due time
	TimerCanceled  ReceiptType = "TimerCanceled"  // the timer is Canceled, by this command or before
	TimerIgnored   ReceiptType = "TimerIgnored"   // the command has no effect, see its reasons below
	TimerRejected  ReceiptType = "TimerRejected"  // the command is invalid: a dead letter has it
)

// Reasons of a TimerIgnored. Those of a TimerRejected are those of its dead letter.
const (
	IgnoredStale   Reason = "stale"   // a newer command was accepted before
	IgnoredReached Reason = "reached" // the timer has fired
	IgnoredExpired Reason = "expired" // the timer has expired
)

// A Receipt tells the producer of a command what became of it. TimerScheduled and
// TimerCanceled are final. A command that is delivered again later may be ignored then,
// which says nothing about the first time.
type Receipt struct {
	Type          ReceiptType
	Key                     // without a service call if a rejected command names no valid one
	ID            string    // of the receipt, the same at every delivery of the command with the same answer; set by the envelope
	CommandID     string    // empty if a rejected command has no valid one
	CorrelationID string    // that of the command; may be empty
	Trace         Trace     // that of the command; may be empty
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

// receipt returns the receipt of a command, of which the type is empty if it has none,
// and whether it is wanted.
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

// Receipts returns the receipts of commands with results, handled at a time. Commands
// that want none, that were accepted before (then they had one), or that are refused
// have none.
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
