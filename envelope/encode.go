package envelope

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// These are the bodies of messages, with their fields in order. The data of a timer,
// and the list of a ScheduleTimers, are inserted into the output of the library.
type (
	envelopeBody struct {
		ID            string              `json:"id"`
		Type          string              `json:"type"`
		TenantID      timer.TenantID      `json:"tenantId"`
		AggregateID   timer.ServiceCallID `json:"aggregateId,omitzero"`
		TimestampMS   int64               `json:"timestampMs"`
		CorrelationID string              `json:"correlationId,omitzero"`
		CausationID   string              `json:"causationId,omitzero"`
		Payload       payloadBody         `json:"payload"`
	}
	cloudEventBody struct {
		SpecVersion   string              `json:"specversion"`
		ID            string              `json:"id"`
		Source        string              `json:"source"`
		Type          string              `json:"type"`
		Subject       timer.ServiceCallID `json:"subject,omitzero"`
		Time          string              `json:"time"`
		ContentType   string              `json:"datacontenttype"`
		TenantID      timer.TenantID      `json:"tenantid"`
		CorrelationID string              `json:"correlationid,omitzero"`
		CausationID   string              `json:"causationid,omitzero"`
		TraceParent   string              `json:"traceparent,omitzero"`
		TraceState    string              `json:"tracestate,omitzero"`
		Data          payloadBody         `json:"data"`
	}
	payloadBody struct {
		TenantID      timer.TenantID      `json:"tenantId"`
		ServiceCallID timer.ServiceCallID `json:"serviceCallId,omitzero"`
		DueAt         string              `json:"dueAt,omitzero"`
		ExpiresAt     string              `json:"expiresAt,omitzero"`
		ReachedAt     string              `json:"reachedAt,omitzero"`
		ExpiredAt     string              `json:"expiredAt,omitzero"`
		Reason        timer.Reason        `json:"reason,omitzero"`
		Detail        string              `json:"detail,omitzero"`

		ServiceCallIDs []timer.ServiceCallID `json:"serviceCallIds,omitzero"`
		Prefix         string                `json:"prefix,omitzero"`
		CorrelationID  string                `json:"correlationId,omitzero"`
	}
	itemBody struct { // of the timers of a ScheduleTimers
		ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
		DueAt         string              `json:"dueAt"`
		ExpiresAt     string              `json:"expiresAt,omitzero"`
	}
)

// encode encodes a body. Nothing is escaped for HTML. Bytes that are not UTF-8 become
// U+FFFD, which no identifier may contain, so an invalid one never becomes a valid one.
func encode(body any) []byte {
	b, err := json.Marshal(body, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // a body has only texts and numbers
	}
	return b
}

// newBody returns the body of a message about one timer, or about none if the key has no
// service call.
func newBody(kind string, key timer.Key, version timer.Version, correlationID string) envelopeBody {
	return envelopeBody{
		ID: version.CommandID, Type: kind, TenantID: key.TenantID, AggregateID: key.ServiceCallID, TimestampMS: version.TimestampMS,
		CorrelationID: correlationID, Payload: payloadBody{TenantID: key.TenantID, ServiceCallID: key.ServiceCallID},
	}
}

// Schedule encodes a command, which must be valid by
// [timer.ScheduleTimer.Validate], and its data, if there are any, by
// [ValidateData]; [Decode] refuses the result if it is not. Due time and expiry are rounded
// up to the millisecond, data are written as they are. The trace is no part of the
// body, see [CommandHeaders].
func Schedule(c timer.ScheduleTimer) []byte {
	body := newBody(TypeScheduleTimer, c.Key, c.Version, c.CorrelationID)
	body.Payload.DueAt, body.Payload.ExpiresAt = FormatTime(timer.RoundUp(c.DueAt)), optionalTime(c.ExpiresAt)
	return withData(encode(body), "}}", c.Data)
}

// ScheduleMany encodes commands as one message, which must be valid by
// [timer.ScheduleTimers.Validate]; [Decode] refuses the result if it is not, or
// if it has more than [MaxBytes]. A command with a service call id of 36
// characters takes 92 bytes, so 500 of them fit; of ids with 128 characters 354
// do. Data count, too. Times, traces and data are treated as by [Schedule].
func ScheduleMany(c timer.ScheduleTimers) []byte {
	body := newBody(TypeScheduleTimers, timer.Key{TenantID: c.TenantID}, c.Version, firstOf(c).CorrelationID)
	list := []byte{'['}
	for i, command := range c.Commands {
		if i > 0 {
			list = append(list, ',')
		}
		item := itemBody{command.ServiceCallID, FormatTime(timer.RoundUp(command.DueAt)), optionalTime(command.ExpiresAt)}
		list = append(list, withData(encode(item), "}", command.Data)...)
	}
	return insert(encode(body), "}}", "timers", append(list, ']'))
}

// firstOf returns the first command, whose correlation id and trace are those of all.
func firstOf(c timer.ScheduleTimers) timer.ScheduleTimer {
	for _, first := range c.Commands {
		return first
	}
	return timer.ScheduleTimer{}
}

// Cancel encodes a command, which must be valid by [timer.CancelTimer.Validate];
// [Decode] refuses the result if it is not.
func Cancel(c timer.CancelTimer) []byte {
	return encode(newBody(TypeCancelTimer, c.Key, c.Version, c.CorrelationID))
}

// CancelMany encodes a command, which must be valid by [timer.CancelTimers.Validate];
// [Decode] refuses the result if it is not.
func CancelMany(c timer.CancelTimers) []byte { return encode(selectionBody(TypeCancelTimers, c)) }

// RescheduleMany encodes a command, which must be valid by [timer.RescheduleTimers.Validate];
// [Decode] refuses the result if it is not. The due time is rounded up to the millisecond.
func RescheduleMany(c timer.RescheduleTimers) []byte {
	body := selectionBody(TypeRescheduleTimers, c.Command().CancelTimers)
	body.Payload.DueAt = FormatTime(timer.RoundUp(c.DueAt))
	return encode(body)
}

// Selection encodes a CancelTimers or a RescheduleTimers.
func Selection(c timer.SelectionCommand) []byte {
	if c.IsMove() {
		return RescheduleMany(c.Reschedule())
	}
	return CancelMany(c.CancelTimers)
}

func selectionBody(kind string, c timer.CancelTimers) envelopeBody {
	body := newBody(kind, timer.Key{TenantID: c.TenantID}, c.Version, c.CorrelationID)
	body.Payload.ServiceCallIDs, body.Payload.Prefix, body.Payload.CorrelationID = c.Of.Calls, c.Of.Prefix, c.Of.CorrelationID
	return body
}

// optionalTime returns a time as messages carry it, rounded up, or "" if there is none.
func optionalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return FormatTime(timer.RoundUp(t))
}

// Reached encodes an event, as a [timer.TimerExpired] if its state is Expired. Its id is e.ID,
// or [EventID] if that is empty. Two attempts at the same event differ only in timestampMs and
// in reachedAt or expiredAt, which are the same instant.
func Reached(e timer.DueTimeReached) []byte { return Format{}.Reached(e) }

// data returns the data of a timer as they are written in the body, or "" if the
// key is absent. They are well formed: that was checked with the rest of the body.
func (d *decoder) data(field string, v value) string {
	if v == nil {
		return ""
	}
	data := string(v)
	d.fail(timer.ValidateData(field, data))
	return data
}

// ValidateData returns an [timer.InvalidError] unless data may travel with a timer:
// one JSON value of at most [timer.MaxDataBytes] of UTF-8, with nothing around it
// and no key twice in an object, that is not too deep for a ScheduleTimer. Field
// names it in the error.
func ValidateData(field, data string) error {
	if err := timer.ValidateData(field, data); err != nil {
		return err
	}
	const deepest = MaxDepth - 2 // below the envelope and its payload
	switch {
	case !utf8.ValidString(data):
		return timer.Invalid(timer.ReasonNotUTF8, "%s is not UTF-8", field)
	case tooDeep([]byte(data), deepest) > 0:
		return timer.Invalid(timer.ReasonTooDeep, "%s is nested deeper than %d; flatten it", field, deepest)
	case !isValue(data):
		return timer.Invalid(timer.ReasonNotJSON, "%s is not one JSON value, or has a key twice", field)
	}
	return nil
}

// isValue reports whether data is one well-formed JSON value, with no space around
// it.
func isValue(data string) bool {
	const space = " \t\r\n"
	return strings.Trim(data, space) == data && jsontext.Value(data).IsValid()
}

// withData inserts the data of a timer, byte for byte, before the end of a body, unless
// there are none. The library would format them. If they are not a JSON value, the body is
// not JSON either.
func withData(body []byte, end, data string) []byte {
	switch {
	case data == "":
		return body
	case !isValue(data):
		data = ""
	}
	return insert(body, end, "data", data)
}

// insert adds a field before the end of a body, which is one or more braces.
func insert[V ~string | ~[]byte](body []byte, end, name string, value V) []byte {
	body = append(body[:len(body)-len(end)], `,"`+name+`":`...)
	return append(append(body, value...), end...)
}
