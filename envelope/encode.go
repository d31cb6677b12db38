package envelope

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// Room enough for most messages.
const (
	encodedBytes      = 384
	encodedCloudBytes = 640
)

// Schedule encodes a command, which must be valid by
// [timer.ScheduleTimer.Validate]; [Decode] refuses the result if it is not. The
// due time is rounded up to the millisecond. The trace is no part of the body,
// see [ScheduleHeaders].
func Schedule(c timer.ScheduleTimer) []byte {
	b := appendEnvelope(make([]byte, 0, encodedBytes), TypeScheduleTimer, c.Key, c.Version, c.CorrelationID)
	b = append(b, `,"dueAt":"`...)
	b = appendTime(b, timer.RoundUp(c.DueAt))
	return append(b, `"}}`...)
}

// Cancel encodes a command, which must be valid by [timer.CancelTimer.Validate];
// [Decode] refuses the result if it is not.
func Cancel(c timer.CancelTimer) []byte {
	b := appendEnvelope(make([]byte, 0, encodedBytes), TypeCancelTimer, c.Key, c.Version, c.CorrelationID)
	return append(b, `}}`...)
}

// Reached encodes an event. Its id is e.ID, or [EventID] if that is empty. Two
// attempts at the same event differ in reachedAt and timestampMs only, which
// are the same instant.
func Reached(e timer.DueTimeReached) []byte {
	version := timer.Version{TimestampMS: e.ReachedAt.UnixMilli(), CommandID: idOf(e)}
	b := appendEnvelope(make([]byte, 0, encodedBytes), TypeDueTimeReached, e.Key, version, e.CorrelationID)
	return appendTimes(b, e)
}

// appendTimes appends the times of an event, and all that is left to append.
func appendTimes(b []byte, e timer.DueTimeReached) []byte {
	b = append(b, `,"dueAt":"`...)
	b = appendTime(b, timer.RoundUp(e.DueAt))
	b = append(b, `","reachedAt":"`...)
	b = appendTime(b, timer.RoundDown(e.ReachedAt))
	return append(b, `"}}`...)
}

// appendEnvelope appends everything up to the payload's serviceCallId.
func appendEnvelope(b []byte, kind string, key timer.Key, version timer.Version, correlationID string) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, version.CommandID)
	b = append(b, `,"type":"`...)
	b = append(b, kind...)
	b = append(b, `","tenantId":`...)
	b = appendString(b, string(key.TenantID))
	b = append(b, `,"aggregateId":`...)
	b = appendString(b, string(key.ServiceCallID))
	b = append(b, `,"timestampMs":`...)
	b = strconv.AppendInt(b, version.TimestampMS, 10)
	if correlationID != "" {
		b = append(b, `,"correlationId":`...)
		b = appendString(b, correlationID)
	}
	return appendKey(append(b, `,"payload":`...), key)
}

// appendKey appends the beginning of a payload.
func appendKey(b []byte, key timer.Key) []byte {
	b = append(b, `{"tenantId":`...)
	b = appendString(b, string(key.TenantID))
	b = append(b, `,"serviceCallId":`...)
	return appendString(b, string(key.ServiceCallID))
}

// appendString appends s as a JSON string. Nothing is escaped for HTML. Bytes
// that are no UTF-8 become U+FFFD, which no identifier may hold, so an invalid
// one never turns into a valid one.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			b, _ = jsontext.AppendQuote(b, s) // tells of bytes that are no UTF-8, see above
			return b
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
