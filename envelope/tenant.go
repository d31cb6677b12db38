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
// envelope names it in tenantId, and a CloudEvent in the attribute tenantid, or else in the
// tenantId of its data. TenantOf reads as far as the body makes sense, at most [MaxBytes].
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
	var m struct {
		ID          mention `json:"id"`
		Tenant      mention `json:"tenantId"`
		Correlation mention `json:"correlationId"`
		Aggregate   mention `json:"aggregateId"`
		Payload     inner   `json:"payload"`

		CloudTenant      mention `json:"tenantid"`
		CloudCorrelation mention `json:"correlationid"`
		CloudSubject     mention `json:"subject"`
		CloudData        inner   `json:"data"`
		SpecVersion      value   `json:"specversion"`
	}
	readAnyway(body, &m)
	if m.SpecVersion != nil {
		m.Tenant, m.Correlation, m.Aggregate, m.Payload = m.CloudTenant, m.CloudCorrelation, m.CloudSubject, m.CloudData
		if m.Tenant.times == 0 || m.Tenant.null {
			m.Tenant = m.CloudData.Tenant
		}
	}
	call := cmp.Or(m.Payload.Call.call(), m.Aggregate.call())
	return Origin{ID: m.ID.identifier(), TenantID: m.Tenant.tenant(), CorrelationID: m.Correlation.identifier(), ServiceCallID: call}
}

// readAnyway decodes a body as far as it makes sense, at most MaxBytes of it.
func readAnyway(body []byte, into any) {
	body = bytes.TrimPrefix(body[:min(len(body), MaxBytes)], byteOrderMark)
	// An error ends the decoding; values that were decoded before it count.
	_ = json.Unmarshal(body, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// A mention is the value of a key that may be there several times.
type mention struct {
	times int
	null  bool
	text  string // if it is a string
}

// valid returns the text if the key occurs once and its value is valid, or "".
func (m *mention) valid(validate func(text string) error) string {
	if m.times != 1 || validate(m.text) != nil {
		return ""
	}
	return m.text
}

// tenant returns the tenant if the key occurs once and its value is valid.
func (m *mention) tenant() timer.TenantID {
	return timer.TenantID(m.valid(func(text string) error { return timer.TenantID(text).Validate() }))
}

// call returns the service call if the key occurs once and its value is valid.
func (m *mention) call() timer.ServiceCallID {
	return timer.ServiceCallID(m.valid(func(text string) error { return timer.ServiceCallID(text).Validate() }))
}

// identifier returns the identifier if the key occurs once and its value is valid.
func (m *mention) identifier() string {
	return m.valid(func(text string) error { return timer.ValidateID("", text) })
}

// UnmarshalJSONFrom counts any JSON value, and keeps a string.
func (m *mention) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	m.times++
	var v value
	err := v.UnmarshalJSONFrom(d)
	m.null = isNull(v)
	if err == nil && v[0] == '"' {
		m.text = string(unquote(v))
	}
	return err
}

// An inner is the value of the key payload, or of the key data of a CloudEvent.
type inner struct {
	Tenant mention `json:"tenantId"`
	Call   mention `json:"serviceCallId"`
}

// UnmarshalJSONFrom decodes an object, and skips any other JSON value.
func (v *inner) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != jsontext.KindBeginObject {
		return d.SkipValue()
	}
	type object inner // without this method
	return json.UnmarshalDecode(d, (*object)(v))
}
