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

// Headers that every adapter sets beside the body. On the way in only
// [HeaderCorrelationID], [HeaderTraceParent] and [HeaderTraceState] are read.
const (
	HeaderType          = "type"
	HeaderTenantID      = "tenantId"
	HeaderServiceCallID = "serviceCallId"
	HeaderMessageID     = "messageId"
	HeaderCorrelationID = "correlationId"
	HeaderTraceParent   = "traceparent"
	HeaderTraceState    = "tracestate"
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
	// timer.DueTimeReached, complete and valid, or nil if Type is none of ours;
	// then only Type is known to be well formed.
	Payload any
}

// Decode reads one envelope, strictly. Its errors are [timer.InvalidError].
func Decode(body []byte) (Message, error) { panic("next") }

// TenantOf returns the tenant that an invalid body names, for routing its dead
// letter, or [timer.NoTenant].
func TenantOf(body []byte) timer.TenantID { panic("next") }

// Schedule encodes a command.
func Schedule(c timer.ScheduleTimer) []byte { panic("next") }

// Cancel encodes a command.
func Cancel(c timer.CancelTimer) []byte { panic("next") }

// Reached encodes an event. Its id is EventID(e).
func Reached(e timer.DueTimeReached) []byte { panic("next") }

// EventID returns the id of an event.
func EventID(e timer.DueTimeReached) string { panic("next") }

// Headers returns the headers of a message ...
func Headers(m Message, trace timer.Trace) map[string]string { panic("next") }
