package history

import (
	"fmt"
	"slices"
)

// A Rule names a fault of the service.
type Rule string

// The rules, in the order of a report.
const (
	Lost         Rule = "lost"           // a timer has neither event nor cancellation
	Early        Rule = "early"          // an event came before its due time
	Duplicate    Rule = "duplicates"     // an event came again under its id
	Repeated     Rule = "republished"    // an event was published again, whether or not the broker kept it
	Refired      Rule = "fired again"    // an event was published again long after the broker had it, after a restart
	SecondID     Rule = "second ids"     // a version has events with different ids
	SharedID     Rule = "shared ids"     // different versions have events with one id
	Changed      Rule = "changed"        // attempts at one event differ in more than its times
	Invented     Rule = "invented"       // a message answers nothing that was sent
	Superseded   Rule = "superseded"     // a version fired that was replaced in time
	TwoVersions  Rule = "two versions"   // more than one version of a key fired
	WrongTopic   Rule = "wrong topic"    // a message arrived on a topic that is not its tenant's
	Malformed    Rule = "malformed"      // a message is not as the contract describes it
	Refused      Rule = "refused"        // a valid message became a dead letter
	NoDeadLetter Rule = "no dead letter" // a poison message has no dead letter
	Unstored     Rule = "unstored"       // a command that the broker acked is not in its stream
	Vanished     Rule = "vanished"       // a message that the broker delivered is not in its stream
	Died         Rule = "died"           // the service ended by itself
	Unclean      Rule = "unclean"        // the service did not stop cleanly when it was given to
	Unreached    Rule = "unreached"      // the service did not die at a step, where it was given to
	Unsettled    Rule = "unsettled"      // the service did not come to rest in time
)

var rules = [...]Rule{
	Lost, Early, Duplicate, Repeated, Refired, SecondID, SharedID, Changed, Invented, Superseded, TwoVersions,
	WrongTopic, Malformed, Refused, NoDeadLetter, Unstored, Vanished, Died, Unclean, Unreached, Unsettled,
}

// A Finding says how often a rule was broken.
type Finding struct {
	Rule    Rule
	Count   int
	Excused bool   // whether this is no violation
	Example string // the first one
}

// A Verdict is the result of [Check].
type Verdict struct {
	Sent         int // messages published, of all kinds
	Acked        int // messages that the broker confirmed
	Accepted     int // messages that the service acked
	Gone         int // messages that the broker confirmed, and lost before the service acked them
	Timers       int // keys with a ScheduleTimer that the broker confirmed
	Fired        int // timers with an event
	Canceled     int // timers without one whose newest command is a CancelTimer
	Events       int // in the stream
	Republished  int // publishes of events beyond the first; the broker drops most
	MostOften    int // publishes of the event that was published most often
	Poison       int // invalid messages that the broker confirmed
	DeadLettered int // invalid messages that have a dead letter
	Overall      Lateness
	WhileUp      Lateness  // of those due while the service was up
	Findings     []Finding // one a rule
}

func newVerdict() Verdict {
	v := Verdict{Findings: make([]Finding, len(rules))}
	for i, rule := range rules {
		v.Findings[i].Rule = rule
	}
	return v
}

// Add counts a breach of a rule, and keeps the first as the example.
func (v *Verdict) Add(rule Rule, format string, args ...any) {
	f := &v.Findings[slices.Index(rules[:], rule)]
	if f.Count == 0 {
		f.Example = fmt.Sprintf(format, args...)
	}
	f.Count++
}

// Excuse makes breaches of rules no violation.
func (v *Verdict) Excuse(excused ...Rule) {
	for _, rule := range excused {
		v.Findings[slices.Index(rules[:], rule)].Excused = true
	}
}

// Count returns how often a rule was broken.
func (v *Verdict) Count(rule Rule) int { return v.Findings[slices.Index(rules[:], rule)].Count }

// Violations returns how often rules were broken that are not excused.
func (v *Verdict) Violations() (n int) {
	for _, f := range v.Findings {
		if !f.Excused {
			n += f.Count
		}
	}
	return n
}
