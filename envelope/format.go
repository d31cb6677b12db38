package envelope

import (
	"cmp"
	"time"

	"github.com/event-service-agent/timer-service/timer"
)

// DefaultSource is the source of events that are CloudEvents, if none is
// configured.
const DefaultSource = "/timer-service"

// ContentTypeCloudEvents is the [HeaderContentType] of a message whose body is a
// CloudEvent.
const ContentTypeCloudEvents = "application/cloudevents+json"

const contentTypeJSON = "application/json"

// A Format is how events are written. The zero value writes envelopes. [Decode]
// reads all formats.
type Format struct {
	CloudEvents bool   // CloudEvents 1.0, structured JSON, instead of envelopes
	Source      string // their source, valid by [ValidateSource]; default [DefaultSource]
}

// Reached encodes an event as [Reached] does, in this format.
func (f Format) Reached(e timer.DueTimeReached) []byte {
	body := newBody(TypeOf(e), e.Key, timer.Version{TimestampMS: e.ReachedAt.UnixMilli(), CommandID: idOf(e)}, e.CorrelationID)
	body.Payload.DueAt, body.Payload.ExpiresAt = FormatTime(timer.RoundUp(e.DueAt)), formatExpiry(e.ExpiresAt)
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
		trace.State = "" // it has no meaning alone
	}
	return encode(cloudEventBody{
		SpecVersion: specVersion, ID: m.ID, Source: cmp.Or(f.Source, DefaultSource), Type: m.Type, Subject: m.AggregateID,
		Time: FormatTime(time.UnixMilli(m.TimestampMS)), ContentType: contentTypeJSON, TenantID: m.TenantID,
		CorrelationID: m.CorrelationID, CausationID: m.CausationID, TraceParent: trace.Parent, TraceState: trace.State, Data: m.Payload,
	})
}

// HeadersOf returns the headers of an event in this format: those of
// [HeadersOf], and the content type unless it is an envelope.
func (f Format) HeadersOf(e timer.DueTimeReached) map[string]string {
	h := HeadersOf(e)
	if f.CloudEvents {
		h[HeaderContentType] = ContentTypeCloudEvents
	}
	return h
}
