package envelope

import (
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
	if !f.CloudEvents {
		return Reached(e)
	}
	b := append(make([]byte, 0, encodedCloudBytes), `{"specversion":"`+specVersion+`","id":`...)
	b = appendString(b, idOf(e))
	b = append(b, `,"source":`...)
	b = appendString(b, f.source())
	b = append(b, `,"type":"`+TypeDueTimeReached+`","subject":`...)
	b = appendString(b, string(e.ServiceCallID))
	b = append(b, `,"time":"`...)
	b = appendTime(b, timer.RoundDown(e.ReachedAt))
	b = append(b, `","datacontenttype":"`+contentTypeJSON+`","tenantid":`...)
	b = appendString(b, string(e.TenantID))
	if e.CorrelationID != "" {
		b = append(b, `,"correlationid":`...)
		b = appendString(b, e.CorrelationID)
	}
	if e.Trace.Parent != "" {
		b = append(b, `,"traceparent":`...)
		b = appendString(b, e.Trace.Parent)
		if e.Trace.State != "" {
			b = append(b, `,"tracestate":`...)
			b = appendString(b, e.Trace.State)
		}
	}
	return appendTimes(appendKey(append(b, `,"data":`...), e.Key), e)
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

func (f Format) source() string {
	if f.Source == "" {
		return DefaultSource
	}
	return f.Source
}
