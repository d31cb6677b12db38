package timer

import "time"

// A ReceiptType says what became of a command, as the type of the receipt's message.
type ReceiptType string

// Types of receipts.
const (
	TimerScheduled ReceiptType = "TimerScheduled" // the timer has the command's due time
	TimerCanceled  ReceiptType = "TimerCanceled"  // the timer is Canceled, by this command or before
	TimerIgnored   ReceiptType = "TimerIgnored"   // the command has no effect, see IgnoredStale and IgnoredReached
	TimerRejected  ReceiptType = "TimerRejected"  // the command is invalid: a dead letter has it
)

// Reasons of a TimerIgnored. Those of a TimerRejected are those of its dead letter.
const (
	IgnoredStale   Reason = "stale"   // a newer command was accepted before
	IgnoredReached Reason = "reached" // the timer has fired
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

// receipt returns the receipt of a command; false if it has none, see [Receipts].
func (c ScheduleTimer) receipt(o Outcome, at time.Time) (r Receipt, ok bool) {
	if !c.Receipt {
		return r, false
	}
	r = Receipt{Key: c.Key, CommandID: c.CommandID, CorrelationID: c.CorrelationID, Trace: c.Trace, At: RoundDown(at)}
	if o == DidSchedule || o == DidReschedule {
		r.Type, r.DueAt = TimerScheduled, RoundUp(c.DueAt)
		return r, true
	}
	return r, r.ignored(o)
}

func (c CancelTimer) receipt(o Outcome, at time.Time) (r Receipt, ok bool) {
	if !c.Receipt {
		return r, false
	}
	r = Receipt{Key: c.Key, CommandID: c.CommandID, CorrelationID: c.CorrelationID, Trace: c.Trace, At: RoundDown(at)}
	if o == DidCancel || o == WasCanceled {
		r.Type = TimerCanceled
		return r, true
	}
	return r, r.ignored(o)
}

func (r *Receipt) ignored(o Outcome) bool {
	r.Type = TimerIgnored
	switch o {
	case WasStale:
		r.Reason = IgnoredStale
	case WasReached:
		r.Reason = IgnoredReached
	}
	return r.Reason != ""
}

// Receipts returns the receipts of commands with results, handled at a time. Commands
// that want none, that were accepted before (then they had one), or that are refused
// have none.
func Receipts[C interface {
	receipt(o Outcome, at time.Time) (Receipt, bool)
}](commands []C, results []Result, at time.Time) (receipts []Receipt) {
	for i, c := range commands {
		if r, ok := c.receipt(results[i].Outcome, at); ok && results[i].Err == nil {
			receipts = append(receipts, r)
		}
	}
	return receipts
}
