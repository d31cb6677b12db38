package envelope

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// IsReceipt reports whether a type of messages is that of a receipt.
func IsReceipt(kind string) bool {
	switch timer.ReceiptType(kind) {
	case timer.TimerScheduled, timer.TimerCanceled, timer.TimerIgnored, timer.TimerRejected:
		return true
	}
	return false
}

// ReceiptID returns the id of a receipt: a UUID of version 8, cut from the SHA-256 of
// all that it says but for its time, so that one id never has two answers. Parts are
// preceded by their length.
func ReceiptID(r timer.Receipt) string {
	seed := make([]byte, 0, 8*4+1024)
	due := ""
	if !r.DueAt.IsZero() {
		due = FormatTime(r.DueAt)
	}
	for _, part := range [...]string{string(r.Type), string(r.TenantID), string(r.ServiceCallID), r.CommandID, r.CorrelationID, due, string(r.Reason), r.Detail} {
		seed = binary.BigEndian.AppendUint32(seed, uint32(len(part)))
		seed = append(seed, part...)
	}
	sum := sha256.Sum256(seed)
	id := uuid.UUID(sum[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

func idOfReceipt(r timer.Receipt) string {
	if r.ID != "" {
		return r.ID
	}
	return ReceiptID(r)
}

// Receipt encodes a receipt in this format. Its id is r.ID, or [ReceiptID] if that is
// empty. Its causationId is the command, its timestampMs when that was handled.
func (f Format) Receipt(r timer.Receipt) []byte {
	b := make([]byte, 0, encodedCloudBytes)
	optional := func(name, value string) {
		if value != "" {
			b = append(append(append(b, ',', '"'), name...), '"', ':')
			b = appendString(b, value)
		}
	}
	at := timer.RoundDown(r.At)
	if f.CloudEvents {
		b = append(b, `{"specversion":"`+specVersion+`","id":`...)
		b = appendString(b, idOfReceipt(r))
		optional("source", f.source())
		optional("type", string(r.Type))
		optional("subject", string(r.ServiceCallID))
		b = append(b, `,"time":"`...)
		b = appendTime(b, at)
		b = append(b, `","datacontenttype":"`+contentTypeJSON+`"`...)
		optional("tenantid", string(r.TenantID))
		optional("correlationid", r.CorrelationID)
		optional("causationid", r.CommandID)
		optional("traceparent", r.Trace.Parent)
		optional("tracestate", r.Trace.State)
		b = append(b, `,"data":`...)
	} else {
		b = append(b, `{"id":`...)
		b = appendString(b, idOfReceipt(r))
		optional("type", string(r.Type))
		optional("tenantId", string(r.TenantID))
		optional("aggregateId", string(r.ServiceCallID))
		b = append(b, `,"timestampMs":`...)
		b = strconv.AppendInt(b, at.UnixMilli(), 10)
		optional("correlationId", r.CorrelationID)
		optional("causationId", r.CommandID)
		b = append(b, `,"payload":`...)
	}
	b = appendKey(b, r.Key)
	if r.Type == timer.TimerScheduled {
		optional("dueAt", FormatTime(timer.RoundUp(r.DueAt)))
	}
	optional("reason", string(r.Reason))
	optional("detail", r.Detail)
	return append(b, '}', '}')
}

// HeadersOfReceipt returns the headers of a receipt: those of an event.
func (f Format) HeadersOfReceipt(r timer.Receipt) map[string]string {
	h := headers(string(r.Type), idOfReceipt(r), r.Key, r.CorrelationID, r.Trace)
	if f.CloudEvents {
		h[HeaderContentType] = ContentTypeCloudEvents
	}
	return h
}

// receipt decodes a receipt.
func (d *decoder) receipt(m *Message) timer.Receipt {
	r := timer.Receipt{Type: timer.ReceiptType(m.Type)}
	if r.Type == timer.TimerRejected && d.Payload.ServiceCallID == nil {
		d.common(m) // the command names no service call
		if r.TenantID = m.TenantID; d.AggregateID != nil {
			d.fail(timer.Invalid(timer.ReasonKeyMismatch, "%s is given without %s; name the same service call in both or leave both out", d.names.aggregate, d.names.payloadCall))
		}
	} else {
		r.Key = d.key(m)
	}
	r.ID, r.CommandID, r.CorrelationID, r.Trace = m.ID, m.CausationID, m.CorrelationID, d.trace()
	r.At = time.UnixMilli(m.TimestampMS).UTC()
	switch r.Type {
	case timer.TimerScheduled:
		r.DueAt = d.instant(d.names.payload+".dueAt", d.Payload.DueAt)
	case timer.TimerIgnored, timer.TimerRejected:
		r.Reason = timer.Reason(d.text(d.names.payload+".reason", d.Payload.Reason))
	}
	if r.Type == timer.TimerRejected {
		r.Detail = string(d.text(d.names.payload+".detail", d.Payload.Detail))
	}
	return r
}
