package envelope

import (
	"time"

	"github.com/google/uuid"

	"github.com/event-service-agent/timer-service/timer"
)

// IsReceipt reports whether messages of a type are receipts.
func IsReceipt(kind string) bool {
	switch timer.ReceiptType(kind) {
	case timer.TimerScheduled, timer.TimerCanceled, timer.TimerIgnored, timer.TimerRejected:
		return true
	}
	return false
}

// ReceiptID returns the id of a receipt: a UUID of version 8, cut from the SHA-256 of
// all its fields except the time, so that one id never has two answers.
func ReceiptID(r timer.Receipt) string {
	sum := hash(string(r.Type), string(r.TenantID), string(r.ServiceCallID), r.CommandID, r.CorrelationID, optionalTime(r.DueAt), string(r.Reason), r.Detail)
	return format(uuid.UUID(sum[:16]), 8)
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
	body := newBody(string(r.Type), r.Key, timer.Version{TimestampMS: r.At.UnixMilli(), CommandID: idOfReceipt(r)}, r.CorrelationID)
	body.CausationID, body.Payload.Reason, body.Payload.Detail = r.CommandID, r.Reason, r.Detail
	if r.Type == timer.TimerScheduled {
		body.Payload.DueAt = FormatTime(timer.RoundUp(r.DueAt))
	}
	return f.encode(body, r.Trace)
}

// HeadersOfReceipt returns the headers of a receipt. They are like the headers of an event.
func (f Format) HeadersOfReceipt(r timer.Receipt) map[string]string {
	return f.typed(headers(string(r.Type), idOfReceipt(r), r.Key, r.CorrelationID, r.Trace))
}

// receipt decodes a receipt.
func (d *decoder) receipt(m *Message) timer.Receipt {
	r := timer.Receipt{Type: timer.ReceiptType(m.Type)}
	if call := d.Payload.ServiceCallID; r.Type == timer.TimerRejected && absent(call) {
		d.common(m) // the command names no service call
		if r.TenantID = m.TenantID; !absent(d.AggregateID) {
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
		r.Reason = timer.Reason(d.filled(d.names.payload+".reason", d.Payload.Reason))
	}
	if r.Type == timer.TimerRejected {
		r.Detail = d.filled(d.names.payload+".detail", d.Payload.Detail)
	}
	return r
}

// filled returns the text of the string, not an empty one, that a field must hold.
func (d *decoder) filled(field string, v value) string {
	text := string(d.text(field, v))
	if text == "" {
		d.fail(timer.Invalid(timer.ReasonMissingField, "%s is empty", field))
	}
	return text
}
