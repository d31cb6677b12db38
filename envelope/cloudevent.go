package envelope

import (
	"mime"
	"net/url"
	"regexp"
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

// specVersion is the supported version of CloudEvents.
const specVersion = "1.0"

// attributes are the keys that only a CloudEvent has.
type attributes struct {
	SpecVersion value `json:"specversion"` // makes a body a CloudEvent
	Source      value `json:"source"`
	Time        value `json:"time"`
	ContentType value `json:"datacontenttype"`
	Base64      value `json:"data_base64"`
	TraceParent value `json:"traceparent"`
	TraceState  value `json:"tracestate"`

	// Attributes that correspond to a field of the envelope.
	CloudTenantID      value   `json:"tenantid"`
	CloudSubject       value   `json:"subject"`
	CloudCorrelationID value   `json:"correlationid"`
	CloudCausationID   value   `json:"causationid"`
	CloudData          payload `json:"data"`

	envelopeTenantID value // of the key tenantId, which no CloudEvent may have
}

// fromCloudEvent copies the attributes of a CloudEvent to the fields of the
// envelope that they correspond to.
func (f *fields) fromCloudEvent() {
	f.envelopeTenantID = f.TenantID
	f.TenantID, f.AggregateID = f.CloudTenantID, f.CloudSubject
	f.CorrelationID, f.CausationID = f.CloudCorrelationID, f.CloudCausationID
	f.Payload = f.CloudData
}

// check fails for a CloudEvent that breaks the specification, or has a form that
// is not supported.
func (d *decoder) check() {
	if version := string(d.text("specversion", d.SpecVersion)); version != specVersion {
		d.fail(timer.Invalid(timer.ReasonBadField, "specversion %s is not supported; send CloudEvents %s", timer.Quote(version), specVersion))
	}
	if d.envelopeTenantID != nil {
		d.fail(timer.Invalid(timer.ReasonBadField, "tenantId is given together with specversion; a CloudEvent names its tenant in tenantid, an envelope has no specversion"))
	}
	d.fail(ValidateSource(string(d.text("source", d.Source))))
	if !absent(d.Base64) {
		d.fail(timer.Invalid(timer.ReasonBadField, "data_base64 is not read; send the JSON object itself as data"))
	}
	if absent(d.ContentType) {
		return // JSON is the default
	}
	given := string(d.text("datacontenttype", d.ContentType))
	if given == contentTypeJSON {
		return
	}
	kind, _, err := mime.ParseMediaType(given)
	if _, subtype, _ := strings.Cut(kind, "/"); err != nil || subtype != "json" && !strings.HasSuffix(subtype, "+json") {
		d.fail(timer.Invalid(timer.ReasonBadField, "datacontenttype %s is not JSON; write application/json or leave it out", timer.Quote(given)))
	}
}

// trace returns the trace context in the body of a CloudEvent, or that of the headers if the
// body has none. As in headers, a malformed one counts as absent.
func (d *decoder) trace() (t timer.Trace) {
	if d.SpecVersion != nil {
		t = traceOf(textOf(d.TraceParent), textOf(d.TraceState))
	}
	if t.Parent == "" {
		t = TraceFrom(d.header)
	}
	return t
}

// uriCharacters matches a text of characters that a URI may have, RFC 3986, section 2.
var uriCharacters = regexp.MustCompile(`^([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+$`)

// ValidateSource checks that a text can be the source of a CloudEvent: a
// URI-reference by RFC 3986 that is not empty.
func ValidateSource(source string) error {
	if source == "" {
		return timer.Invalid(timer.ReasonMissingField, "source is empty; write a URI-reference")
	}
	if _, err := url.Parse(source); err != nil || !uriCharacters.MatchString(source) {
		return timer.Invalid(timer.ReasonBadField, "source %s is not a URI-reference; write one like /orders or urn:example:orders", timer.Quote(source))
	}
	return nil
}
