package envelope

import (
	"github.com/event-service-agent/timer-service/timer"
)

// Types of messages, as they stand in the envelope and in [HeaderType].
const (
	TypeScheduleTimer  = "ScheduleTimer"
	TypeCancelTimer    = "CancelTimer"
	TypeDueTimeReached = "DueTimeReached"
)

// Limits of a message body.
const (
	MaxBytes = 64 << 10 // bytes of a body
	MaxDepth = 16       // objects and arrays inside each other; the envelope is the first
)

// A Message is one envelope, decoded.
type Message struct {
	ID            string
	Type          string
	TenantID      timer.TenantID
	AggregateID   string // empty if absent
	TimestampMS   int64
	CorrelationID string // empty if absent
	CausationID   string // empty if absent

	// Payload is a timer.ScheduleTimer, a timer.CancelTimer or a
	// timer.DueTimeReached, complete and valid, or nil if Type is none of ours.
	// Then Type is not empty, ID and TenantID are valid or empty, and the
	// other fields are not set.
	Payload any
}
