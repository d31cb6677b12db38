package envelope

import (
	"bytes"
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// TenantOf returns the tenant in a body that may be invalid, to route its dead letter. It
// returns [timer.NoTenant] unless the body names exactly one tenant, and that is valid. An
// envelope names it in tenantId, and a CloudEvent in the attribute tenantid, or without it in
// the tenantId of its data. TenantOf reads as far as the body makes sense, at most [MaxBytes].
func TenantOf(body []byte) timer.TenantID { return cmp.Or(OriginOf(body).TenantID, timer.NoTenant) }

// An Origin holds the ids in a body that may be invalid. Each is empty if there is no valid one.
type Origin struct {
	ID            string // of the message
	TenantID      timer.TenantID
	CorrelationID string
	ServiceCallID timer.ServiceCallID
}

// OriginOf returns the ids in a body that may be invalid. It reads like [TenantOf]: an id
// counts if its field is there once, and valid.
func OriginOf(body []byte) Origin {
	var f fields
	body = bytes.TrimPrefix(body[:min(len(body), MaxBytes)], byteOrderMark)
	// An error ends the decoding; values that were decoded before it count.
	_ = json.Unmarshal(body, &f, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if f.SpecVersion != nil {
		f.fromCloudEvent()
	}
	return f.origin()
}

// origin returns the ids in the fields, after fromCloudEvent if it is one.
func (f *fields) origin() Origin {
	tenant := f.TenantID
	if f.SpecVersion != nil && absent(tenant) {
		tenant = f.Payload.TenantID
	}
	identifier := func(id string) error { return timer.ValidateID("", id) }
	return Origin{
		ID:            valid(f.ID, identifier),
		TenantID:      valid(tenant, timer.TenantID.Validate),
		CorrelationID: valid(f.CorrelationID, identifier),
		ServiceCallID: cmp.Or(valid(f.Payload.ServiceCallID, timer.ServiceCallID.Validate), valid(f.AggregateID, timer.ServiceCallID.Validate)),
	}
}

// valid returns the text of a string, or "" if it is not valid.
func valid[T ~string](v value, validate func(T) error) T {
	text := T(textOf(v))
	if validate(text) != nil {
		return ""
	}
	return text
}
