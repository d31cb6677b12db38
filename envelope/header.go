package envelope

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// Headers that every adapter sets next to the body. On the way in only
// [HeaderCorrelationID], [HeaderTraceParent] and [HeaderTraceState] are read,
// by [CorrelationFrom] and [TraceFrom]. No other header is copied from a command
// to an event.
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

// maxTraceState is the greatest length of a tracestate that is propagated. W3C Trace Context
// asks all systems to propagate at least this length.
const maxTraceState = 512

// HeadersOf returns the headers of an event. They repeat fields of the body, and add the trace
// of the command that set the due time.
func HeadersOf(e timer.DueTimeReached) map[string]string {
	return headers(TypeOf(e), idOf(e), e.Key, e.CorrelationID, e.Trace)
}

// TypeOf returns the type of the message of an event.
func TypeOf(e timer.DueTimeReached) string {
	if e.State() == timer.Expired {
		return TypeTimerExpired
	}
	return TypeDueTimeReached
}

// CommandHeaders returns the headers of a command, nil if it is none. They name the service call of
// a single timer. A producer may leave them out; only the trace is not in the body.
func CommandHeaders(command any) map[string]string {
	switch c := command.(type) {
	case timer.ScheduleTimer:
		return headers(TypeScheduleTimer, c.CommandID, c.Key, c.CorrelationID, c.Trace)
	case timer.ScheduleTimers:
		first := firstOf(c)
		return headers(TypeScheduleTimers, c.CommandID, timer.Key{TenantID: c.TenantID}, first.CorrelationID, first.Trace)
	case timer.CancelTimer:
		return headers(TypeCancelTimer, c.CommandID, c.Key, c.CorrelationID, c.Trace)
	case timer.CancelTimers:
		return headers(TypeCancelTimers, c.CommandID, timer.Key{TenantID: c.TenantID}, c.CorrelationID, c.Trace)
	case timer.RescheduleTimers:
		return headers(TypeRescheduleTimers, c.CommandID, timer.Key{TenantID: c.TenantID}, c.CorrelationID, c.Trace)
	}
	return nil
}

func headers(kind, id string, key timer.Key, correlationID string, trace timer.Trace) map[string]string {
	if trace.Parent == "" {
		trace.State = "" // it has no meaning without a parent
	}
	h := map[string]string{
		HeaderType: kind, HeaderTenantID: string(key.TenantID), HeaderMessageID: id, HeaderServiceCallID: string(key.ServiceCallID),
		HeaderCorrelationID: correlationID, HeaderTraceParent: trace.Parent, HeaderTraceState: trace.State,
	}
	maps.DeleteFunc(h, func(name, value string) bool { return value == "" && name != HeaderTenantID && name != HeaderMessageID })
	return h
}

// CorrelationFrom returns the correlation id that the headers of a message
// carry, or "" if there is none or it is not valid. Get returns a header by its
// name, or "". The correlation id of the body takes precedence.
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
// Names of headers are case-sensitive on most brokers. W3C Trace Context asks to
// accept these two in any case, so each is read in lower case, as HTTP libraries
// write it (Traceparent), and in upper case, in this order.
func TraceFrom(get func(name string) string) timer.Trace {
	parent := first(get, HeaderTraceParent, "Traceparent", "TRACEPARENT")
	if parent == "" {
		return timer.Trace{}
	}
	return traceOf(parent, first(get, HeaderTraceState, "Tracestate", "TRACESTATE"))
}

// Complete takes a missing correlation id and a missing trace from the headers of a message.
// Values of the body take precedence. Get returns a header by its name, or "".
func Complete(get func(name string) string, correlationID *string, trace *timer.Trace) {
	if *correlationID == "" {
		*correlationID = CorrelationFrom(get)
	}
	if trace.Parent == "" {
		*trace = TraceFrom(get)
	}
}

// first returns the first header that is present, or "".
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
	return len(s) <= maxTraceState && strings.IndexFunc(s, notPrintable) < 0
}

// notPrintable reports whether a character is other than printable ASCII.
func notPrintable(r rune) bool { return r < ' ' || r > '~' }

func lowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// EncodeHeaders encodes headers as a JSON object, sorted by name. Bytes that are not UTF-8 are
// replaced. Of names that are the same then, it keeps the first.
func EncodeHeaders(headers map[string]string) []byte {
	for name := range headers {
		if !utf8.ValidString(name) {
			headers = withValidNames(headers)
			break
		}
	}
	text, err := json.Marshal(headers, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // strings with distinct names can always be encoded
	}
	return text
}

func withValidNames(headers map[string]string) map[string]string {
	valid := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		clean := strings.ToValidUTF8(name, "\uFFFD")
		if _, taken := valid[clean]; !taken {
			valid[clean] = headers[name]
		}
	}
	return valid
}

// DecodeHeaders decodes a JSON object of strings, such as the result of [EncodeHeaders].
func DecodeHeaders(text string) (headers map[string]string, err error) {
	if err := json.Unmarshal([]byte(text), &headers); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	return headers, nil
}
