package envelope

import (
	"github.com/event-service-agent/timer-service/timer"
)

// Types of messages, in the envelope and in [HeaderType].
const (
	TypeScheduleTimer  = "ScheduleTimer"
	TypeScheduleTimers = "ScheduleTimers"
	TypeCancelTimer    = "CancelTimer"
	TypeCancelTimers   = "CancelTimers"
	TypeDueTimeReached = "DueTimeReached"
	TypeTimerExpired   = "TimerExpired"
)

// Limits of a message body.
const (
	MaxBytes = 64 << 10 // bytes of a body, of a ScheduleTimers too: about 700 timers with ids of 36 characters, without data
	MaxDepth = 16       // nesting of objects and arrays; the envelope is the first
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

	// Payload is a timer.ScheduleTimer, a timer.ScheduleTimers, a timer.CancelTimer, a
	// timer.CancelTimers, a timer.DueTimeReached, a timer.TimerExpired or a timer.Receipt,
	// complete and valid, or nil if Type is none of ours.
	// Then Type is not empty, ID and TenantID are valid or empty, and the
	// other fields are not set.
	Payload any
}
