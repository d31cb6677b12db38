package timer

import "time"

// A LogKind says which messages of a log a [Number] is about.
type LogKind string

// Kinds.
const (
	LogCommands    LogKind = "commands"
	LogEvents      LogKind = "events"
	LogDeadLetters LogKind = "dead letters" // and the marks of operators
)

// A Number says how far a database is: every message of a kind in a log of the broker, up to
// the number, has had its effect there. A log is, for example, a stream of NATS or a
// partition of Kafka.
type Number struct {
	Broker string // id of the broker; empty if an earlier version of the service wrote it
	Log    string // name of the log, "@", and an id that a later log of that name does not have; at most 512 bytes
	Kind   LogKind
	Number int64 // the broker's number of the message; 0: none yet
}

// A DecisionKind is the subject of a [Decision].
type DecisionKind string

// Kinds.
const (
	DecidedFiring    DecisionKind = "firing"    // to pause firing, or to resume it
	DecidedForgotten DecisionKind = "forgotten" // to forget a tenant
)

// A Decision is a decision of an operator about a tenant. The database keeps the last one of
// each kind, and the broker a mark of it, from which a start reads it if the database was lost.
type Decision struct {
	TenantID  TenantID // empty: about all
	Kind      DecisionKind
	Pause     Pause     // of [DecidedFiring]; the zero value if firing is resumed. Its TenantID is not used.
	At        time.Time // when it was made: of two decisions the later one counts
	Published bool      // the broker has its mark
}

// Kept returns the decision as stores keep it: with At in milliseconds, and its pause as
// [Pause.Kept] returns it. It returns an [ErrInvalid] if that does, or if the decision has no
// time.
func (d Decision) Kept() (Decision, error) {
	if d.At.IsZero() {
		return d, Invalid(ReasonMissingField, "a decision has no time")
	}
	d.At, d.Pause.TenantID = RoundDown(d.At), d.TenantID
	if !d.Pause.Paused() {
		d.Pause = Pause{}
		return d, nil
	}
	var err error
	d.Pause, err = d.Pause.Kept()
	return d, err
}
