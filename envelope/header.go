package envelope

import (
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

// Headers that every adapter sets beside the body. On the way in only
// [HeaderCorrelationID], [HeaderTraceParent] and [HeaderTraceState] are read,
// by [CorrelationFrom] and [TraceFrom]: this list, these two functions and
// [HeadersOf] are all that is known of headers, and nothing else crosses from a
// command to an event.
const (
	HeaderType          = "type"
	HeaderTenantID      = "tenantId"
	HeaderServiceCallID = "serviceCallId"
	HeaderMessageID     = "messageId"
	HeaderCorrelationID = "correlationId"
	HeaderTraceParent   = "traceparent"
	HeaderTraceState    = "tracestate"
	HeaderContentType   = "content-type" // of events that are CloudEvents; on AMQP in the property of this name, too
)

// maxTraceState is what W3C Trace Context asks everyone to carry at least, and
// the most that is carried here.
const maxTraceState = 512

// HeadersOf returns the headers of an event. They repeat what is in the body of
// [Reached], and add the trace of the command that set the due time.
func HeadersOf(e timer.DueTimeReached) map[string]string {
	return headers(TypeDueTimeReached, idOf(e), e.Key, e.CorrelationID, e.Trace)
}

// ScheduleHeaders returns the headers of a command encoded by [Schedule]. A
// producer may leave them out; only the trace is nowhere in the body.
func ScheduleHeaders(c timer.ScheduleTimer) map[string]string {
	return headers(TypeScheduleTimer, c.CommandID, c.Key, c.CorrelationID, c.Trace)
}

// CancelHeaders returns the headers of a command encoded by [Cancel]. A
// producer may leave them out.
func CancelHeaders(c timer.CancelTimer) map[string]string {
	return headers(TypeCancelTimer, c.CommandID, c.Key, c.CorrelationID, timer.Trace{})
}

func headers(kind, id string, key timer.Key, correlationID string, trace timer.Trace) map[string]string {
	h := make(map[string]string, 7)
	h[HeaderType] = kind
	h[HeaderTenantID] = string(key.TenantID)
	h[HeaderServiceCallID] = string(key.ServiceCallID)
	h[HeaderMessageID] = id
	if correlationID != "" {
		h[HeaderCorrelationID] = correlationID
	}
	if trace.Parent != "" {
		h[HeaderTraceParent] = trace.Parent
		if trace.State != "" {
			h[HeaderTraceState] = trace.State
		}
	}
	return h
}

// CorrelationFrom returns the correlation id that the headers of a message
// carry, or "" if there is none or it is not valid. Get returns a header by its
// name, or "". The correlation id of the body goes before it.
func CorrelationFrom(get func(name string) string) string {
	id := get(HeaderCorrelationID)
	if timer.ValidateID(HeaderCorrelationID, id) != nil {
		return ""
	}
	return id
}

// TraceFrom returns the W3C trace context that the headers of a message carry.
// Get returns a header by its name, or "". The trace is zero unless traceparent
// is a valid one of version 00; spaces around a tracestate are cut off, and one
// that is longer than 512 bytes or has other than printable ASCII characters is
// dropped.
//
// Most brokers tell names apart by their case. W3C Trace Context asks to expect
// these two in any case, so each is looked for as [HeaderTraceParent] has it, as
// HTTP libraries write it (Traceparent), and in capitals, in this order.
func TraceFrom(get func(name string) string) timer.Trace {
	parent := first(get, HeaderTraceParent, "Traceparent", "TRACEPARENT")
	if parent == "" {
		return timer.Trace{}
	}
	return traceOf(parent, first(get, HeaderTraceState, "Tracestate", "TRACESTATE"))
}

// first returns the first header that there is, or "".
func first(get func(name string) string, names ...string) string {
	for _, name := range names {
		if value := get(name); value != "" {
			return value
		}
	}
	return ""
}

// traceOf returns a trace context, as far as it is valid.
func traceOf(parent, state string) timer.Trace {
	if !validTraceParent(parent) {
		return timer.Trace{}
	}
	// Not every broker keeps spaces at the ends of a header.
	if state = strings.Trim(state, " "); !validTraceState(state) {
		state = ""
	}
	return timer.Trace{Parent: parent, State: state}
}

// validTraceParent checks "00-<32 hex>-<16 hex>-<2 hex>" with ids that are not
// all zero, see https://www.w3.org/TR/trace-context/#traceparent-header.
func validTraceParent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	trace, span, flags := s[3:35], s[36:52], s[53:]
	return lowerHex(trace) && lowerHex(span) && lowerHex(flags) &&
		strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
}

func validTraceState(s string) bool {
	if len(s) > maxTraceState {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if !('0' <= s[i] && s[i] <= '9' || 'a' <= s[i] && s[i] <= 'f') {
			return false
		}
	}
	return true
}
