package envelope

import (
	"mime"
	"net/url"
	"strings"

	"github.com/event-service-agent/timer-service/timer"
)

// specVersion is the version of CloudEvents that is spoken here.
const specVersion = "1.0"

// attributes are what only a CloudEvent has. What it has in common with an
// envelope is kept in [fields] under the names of the envelope.
type attributes struct {
	specVersion, source, time, contentType, base64, traceParent, traceState value

	envelopeTenant value // of the key tenantId, which makes it an envelope too
}

// attribute returns where the value of a key of a CloudEvent is kept, or nil.
func (f *fields) attribute(key []byte) *value {
	switch string(key) {
	case "id":
		return &f.id
	case "type":
		return &f.kind
	case "tenantid":
		return &f.tenantID
	case "subject":
		return &f.aggregateID
	case "correlationid":
		return &f.correlationID
	case "causationid":
		return &f.causationID
	case "data":
		return &f.payload
	case "specversion":
		return &f.cloud.specVersion
	case "source":
		return &f.cloud.source
	case "time":
		return &f.cloud.time
	case "datacontenttype":
		return &f.cloud.contentType
	case "data_base64":
		return &f.cloud.base64
	case "traceparent":
		return &f.cloud.traceParent
	case "tracestate":
		return &f.cloud.traceState
	case "tenantId":
		return &f.cloud.envelopeTenant
	}
	return nil
}

// cloudEvent sets the fields of a body that has a specversion, from its
// beginning.
func (s *scanner) cloudEvent() error {
	s.fields.cloud = new(attributes)
	if err := s.object((*fields).attribute); err != nil {
		return err
	}
	// The JSON format of CloudEvents says that null is as good as absent.
	f := &s.fields
	for _, optional := range []*value{
		&f.tenantID, &f.aggregateID, &f.correlationID, &f.causationID,
		&f.cloud.contentType, &f.cloud.base64, &f.cloud.traceParent, &f.cloud.traceState,
	} {
		if isNull(*optional) {
			*optional = nil
		}
	}
	return nil
}

func isNull(v value) bool { return len(v) > 0 && v[0] == 'n' }

// check refuses a CloudEvent that is not one by the specification, or one of a
// kind that is not read here.
func (a *attributes) check() error {
	version, err := text("specversion", a.specVersion)
	switch {
	case err != nil:
		return err
	case string(version) != specVersion:
		return timer.Invalid(timer.ReasonBadField, "specversion %s is not supported; send CloudEvents %s", timer.Quote(string(version)), specVersion)
	case a.envelopeTenant != nil:
		return timer.Invalid(timer.ReasonBadField, "tenantId stands beside specversion; a CloudEvent names its tenant in tenantid, an envelope has no specversion")
	}
	source, err := text("source", a.source)
	if err != nil {
		return err
	}
	if err := ValidateSource(string(source)); err != nil {
		return err
	}
	if a.base64 != nil {
		return timer.Invalid(timer.ReasonBadField, "data_base64 is not read; send the JSON object itself as data")
	}
	return a.checkContentType()
}

func (a *attributes) checkContentType() error {
	if a.contentType == nil {
		return nil // it is JSON, then
	}
	b, err := text("datacontenttype", a.contentType)
	if err != nil {
		return err
	}
	given := string(b)
	if given == contentTypeJSON {
		return nil
	}
	kind, _, err := mime.ParseMediaType(given)
	if _, subtype, _ := strings.Cut(kind, "/"); err != nil || subtype != "json" && !strings.HasSuffix(subtype, "+json") {
		return timer.Invalid(timer.ReasonBadField, "datacontenttype %s is not JSON; write application/json or leave it out", timer.Quote(given))
	}
	return nil
}

// trace returns the trace context that the body of a CloudEvent carries. As in
// headers, what is malformed is as good as absent.
func (f *fields) trace() timer.Trace {
	if f.cloud == nil {
		return timer.Trace{}
	}
	plain := func(v value) string {
		if s, err := text("", v); err == nil {
			return string(s)
		}
		return ""
	}
	return traceOf(plain(f.cloud.traceParent), plain(f.cloud.traceState))
}

// ValidateSource checks that a text can be the source of a CloudEvent: a
// URI-reference by RFC 3986 that is not empty.
func ValidateSource(source string) error {
	if source == "" {
		return timer.Invalid(timer.ReasonMissingField, "source is empty; write a URI-reference")
	}
	if _, err := url.Parse(source); err != nil || !ofURI(source) {
		return timer.Invalid(timer.ReasonBadField, "source %s is no URI-reference; write one like /orders or urn:example:orders", timer.Quote(source))
	}
	return nil
}

// ofURI reports whether all characters may stand in a URI, RFC 3986, section 2.
func ofURI(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-._~:/?#[]@!$&'()*+,;=", c) >= 0:
		case c == '%' && len(s) > i+2 && isHex(s[i+1]) && isHex(s[i+2]):
		default:
			return false
		}
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
