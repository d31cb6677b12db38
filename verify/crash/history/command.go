package history

import (
	"cmp"
	"time"
)

// A Key names a timer: a service call of a tenant.
type Key struct {
	Tenant string `json:"tenant"`
	Call   string `json:"call"`
}

// String returns "tenant.call".
func (k Key) String() string { return k.Tenant + "." + k.Call }

// A Version orders the commands of a key.
type Version struct {
	TimestampMS int64  `json:"timestampMs"`
	ID          string `json:"id"`
}

// Compare returns -1 if v is older than o, 0 if they are the same, +1 if v is newer.
func (v Version) Compare(o Version) int {
	return cmp.Or(cmp.Compare(v.TimestampMS, o.TimestampMS), cmp.Compare(v.ID, o.ID))
}

// A Kind is a kind of messages to the service.
type Kind string

// Kinds of messages.
const (
	Schedule Kind = "schedule" // a valid ScheduleTimer
	Cancel   Kind = "cancel"   // a valid CancelTimer
	Poison   Kind = "poison"   // invalid: must become a dead letter
	Foreign  Kind = "foreign"  // of a type that is not the service's: must have no effect
)

// A Command is a message as it goes to the service.
type Command struct {
	Kind Kind `json:"kind"`
	Key
	Version
	DueAt            time.Time         `json:"dueAt,omitzero"`            // as an event must repeat it: UTC, rounded up to the millisecond
	Correlation      string            `json:"correlation,omitzero"`      // as an event must repeat it; may be empty
	Note             string            `json:"note"`                      // the purpose of the message, for people
	DeadLetterTopics []string          `json:"deadLetterTopics,omitzero"` // topics on which the dead letter of a poison message may be
	DedupeID         string            `json:"dedupeId"`                  // the broker's; unique per message
	Header           map[string]string `json:"header,omitzero"`           // next to the body
	Body             []byte            `json:"body"`
}

// A Sent is a command and what became of its publication.
type Sent struct {
	Command
	SentAt time.Time `json:"sentAt"`         // before the first try
	Acked  bool      `json:"acked"`          // whether the broker confirmed it; if not, it may have arrived all the same
	Seq    uint64    `json:"seq,omitzero"`   // where the broker keeps it, if it confirmed it
	Tries  int       `json:"tries,omitzero"` // publishes
}
