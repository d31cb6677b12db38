// Package envelope is the wire contract: the body and the headers of every message, in both
// directions and on every broker. A consumer or a producer in Go needs this package and
// [timer]. For other languages docs/messages.md says the same.
//
// A message is one JSON object, an envelope or a CloudEvent 1.0, with a payload
// in it:
//
//	{"id":"…","type":"ScheduleTimer","tenantId":"acme","timestampMs":1893456000000,
//	 "payload":{"tenantId":"acme","serviceCallId":"sc-1","dueAt":"2030-01-01T00:00:00.000Z"}}
//
//	{"specversion":"1.0","id":"…","source":"/orders","type":"ScheduleTimer","time":"2030-01-01T00:00:00Z",
//	 "data":{"tenantId":"acme","serviceCallId":"sc-1","dueAt":"2030-01-01T00:00:00.000Z"}}
//
//	  [Schedule], [ScheduleMany], [Cancel]        [Format.Reached]
//	 producer ─────────────────────────► the service ─────────────► consumer
//	                            [Decode]                   [Decode]
//
// # Promises
//
//   - [Decode] is strict: it refuses an ambiguous message with an error that has a
//     [timer.Reason] and a text. A message of an unknown type is no error, so that
//     teams may share a topic. No body is both an envelope and a CloudEvent.
//   - An invalid command or event does not become valid by encoding it.
//   - The data of a timer are never decoded and encoded again: an event has them byte
//     for byte as the command had.
//   - A due time and an expiry are rounded up to the millisecond, never down.
//   - The id of an event ([EventID]) is fixed once per generation of a timer. Its
//     bodies differ in reachedAt (or expiredAt) and timestampMs only, or time in a CloudEvent.
package envelope

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// Types of messages, in the envelope and in [HeaderType].
const (
	TypeScheduleTimer    = "ScheduleTimer"
	TypeScheduleTimers   = "ScheduleTimers"
	TypeRescheduleTimers = "RescheduleTimers"
	TypeCancelTimer      = "CancelTimer"
	TypeCancelTimers     = "CancelTimers"
	TypeDueTimeReached   = "DueTimeReached"
	TypeTimerExpired     = "TimerExpired"
)

// Limits of a message body.
const (
	MaxBytes = 64 << 10 // bytes of a body; enough for about 700 timers with ids of 36 characters and without data
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
	// timer.CancelTimers, a timer.RescheduleTimers, a timer.DueTimeReached, a timer.TimerExpired or a timer.Receipt,
	// complete and valid. It is nil if Type is unknown; then Type is not empty, ID and
	// TenantID are valid or empty, and the other fields are not set.
	Payload any
}

// DefaultSource is the source of events that are CloudEvents, if none is
// configured.
const DefaultSource = "/timer-service"

// ContentTypeCloudEvents is the [HeaderContentType] of a message whose body is a
// CloudEvent.
const ContentTypeCloudEvents = "application/cloudevents+json"

const contentTypeJSON = "application/json"

// A Format is a format of events. The zero value writes envelopes. [Decode] reads all
// formats.
type Format struct {
	CloudEvents bool   // CloudEvents 1.0, structured JSON, instead of envelopes
	Source      string // their source, valid by [ValidateSource]; default [DefaultSource]
}

// Reached encodes an event as [Reached] does, in this format.
func (f Format) Reached(e timer.DueTimeReached) []byte {
	body := newBody(TypeOf(e), e.Key, timer.Version{TimestampMS: e.ReachedAt.UnixMilli(), CommandID: idOf(e)}, e.CorrelationID)
	body.Payload.DueAt, body.Payload.ExpiresAt = FormatTime(timer.RoundUp(e.DueAt)), optionalTime(e.ExpiresAt)
	if body.Payload.ReachedAt = FormatTime(timer.RoundDown(e.ReachedAt)); body.Type == TypeTimerExpired {
		body.Payload.ReachedAt, body.Payload.ExpiredAt = "", body.Payload.ReachedAt
	}
	return withData(f.encode(body, e.Trace), "}}", e.Data)
}

// encode encodes a body in this format. Only a CloudEvent has the trace.
func (f Format) encode(m envelopeBody, trace timer.Trace) []byte {
	if !f.CloudEvents {
		return encode(m)
	}
	if trace.Parent == "" {
		trace.State = "" // it has no meaning without a parent
	}
	return encode(cloudEventBody{
		SpecVersion: specVersion, ID: m.ID, Source: cmp.Or(f.Source, DefaultSource), Type: m.Type, Subject: m.AggregateID,
		Time: FormatTime(time.UnixMilli(m.TimestampMS)), ContentType: contentTypeJSON, TenantID: m.TenantID,
		CorrelationID: m.CorrelationID, CausationID: m.CausationID, TraceParent: trace.Parent, TraceState: trace.State, Data: m.Payload,
	})
}

// HeadersOf returns the headers of an event in this format: the result of [HeadersOf], and
// the content type of a CloudEvent.
func (f Format) HeadersOf(e timer.DueTimeReached) map[string]string {
	return f.typed(HeadersOf(e))
}

// typed adds the content type of a CloudEvent to headers.
func (f Format) typed(h map[string]string) map[string]string {
	if f.CloudEvents {
		h[HeaderContentType] = ContentTypeCloudEvents
	}
	return h
}

// EventID returns the id of the event of one generation of a timer. A generation is the key,
// the due time and the command that set it. Each attempt to publish the event has the same id,
// whether the timer fired or expired, and no other generation has it. The id is a UUID of
// version 7: its time is the due time, and its other 74 bits come from the SHA-256 of tenant,
// service call and command id.
func EventID(e timer.DueTimeReached) string {
	sum := hash(string(e.TenantID), string(e.ServiceCallID), e.CommandID)
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:], uint64(timer.RoundUp(e.DueAt).UnixMilli())<<16)
	copy(id[6:], sum[:])
	return format(id, 7)
}

// hash returns the SHA-256 of texts, each preceded by its length so that no two lists of
// texts are hashed alike.
func hash(texts ...string) [sha256.Size]byte {
	seed := make([]byte, 0, 512)
	for _, text := range texts {
		seed = binary.BigEndian.AppendUint32(seed, uint32(len(text)))
		seed = append(seed, text...)
	}
	return sha256.Sum256(seed)
}

// format returns an id as a UUID of a version.
func format(id uuid.UUID, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

// DueAt returns the due time in the id of an event of any format. It reports false if the id
// is not a UUID of version 7.
func DueAt(id string) (time.Time, bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(u[:]) >> 16)).UTC(), true
}

// idOf returns the id of the event, or makes it if the event has none yet.
func idOf(e timer.DueTimeReached) string {
	if e.ID != "" {
		return e.ID
	}
	return EventID(e)
}
