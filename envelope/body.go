package envelope

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// A value is the JSON value of a key as written in the body, or nil if the key is
// absent. It shares the memory of the body.
type value []byte

// UnmarshalJSONFrom accepts any JSON value.
func (v *value) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	*v = value(raw)
	return err
}

// fields are the values of all keys that have a meaning in some message. For a
// CloudEvent, fromCloudEvent sets those of the envelope.
type fields struct {
	ID   value `json:"id"`
	Type value `json:"type"`

	TenantID      value   `json:"tenantId"`
	AggregateID   value   `json:"aggregateId"`
	TimestampMS   value   `json:"timestampMs"`
	CorrelationID value   `json:"correlationId"`
	CausationID   value   `json:"causationId"`
	Payload       payload `json:"payload"`

	attributes
}

// A payload is the value of the key payload, and the values of its keys.
type payload struct {
	whole value // "{" if it is an object

	TenantID      value `json:"tenantId"`
	ServiceCallID value `json:"serviceCallId"`
	DueAt         value `json:"dueAt"`
	ExpiresAt     value `json:"expiresAt"`
	ReachedAt     value `json:"reachedAt"`
	ExpiredAt     value `json:"expiredAt"`
	Data          value `json:"data"`
	Timers        value `json:"timers"`
	Reason        value `json:"reason"`
	Detail        value `json:"detail"`

	ServiceCallIDs value `json:"serviceCallIds"`
	Prefix         value `json:"prefix"`
	CorrelationID  value `json:"correlationId"`
}

func (p *payload) isObject() bool { return len(p.whole) > 0 && p.whole[0] == '{' }

// UnmarshalJSONFrom accepts any JSON value.
func (p *payload) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != jsontext.KindBeginObject {
		return p.whole.UnmarshalJSONFrom(d)
	}
	p.whole = value("{")
	type object payload // without this method
	return json.UnmarshalDecode(d, (*object)(p))
}

// byteOrderMark is that of UTF-8.
var byteOrderMark = []byte("\uFEFF")

// read reads a body that is one well-formed JSON object within the limits.
func (f *fields) read(body []byte) error {
	switch {
	case len(body) > MaxBytes:
		return timer.Invalid(timer.ReasonTooLarge, "body has %d bytes; send at most %d", len(body), MaxBytes)
	case bytes.HasPrefix(body, byteOrderMark):
		return timer.Invalid(timer.ReasonNotJSON, "body begins with a byte order mark; send the JSON without it")
	case !utf8.Valid(body):
		return timer.Invalid(timer.ReasonNotUTF8, "body is not UTF-8 at byte %d; encode it as UTF-8", validBytes(body))
	}
	if offset := tooDeep(body, MaxDepth); offset > 0 {
		return timer.Invalid(timer.ReasonTooDeep, "body is nested deeper than %d at byte %d; flatten it", MaxDepth, offset)
	}
	if err := json.Unmarshal(body, f); err != nil || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return notAnObject(body)
	}
	return nil
}

// tooDeep returns where a body is nested deeper than a limit, or 0.
func tooDeep(body []byte, limit int) int {
	if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) <= limit {
		return 0
	}
	depth, inString := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return i
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return 0
}

// notAnObject returns the error for a body that [json.Unmarshal] refused, or
// accepted although it is null.
func notAnObject(body []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	kind := d.PeekKind()
	for first := true; first || d.StackDepth() > 0; first = false {
		if _, err := d.ReadToken(); err != nil {
			return notJSON(err)
		}
	}
	if kind != jsontext.KindBeginObject {
		return timer.Invalid(timer.ReasonNotJSON, "body is %s; send one JSON object", kindName(kind))
	}
	return timer.Invalid(timer.ReasonNotJSON, "body has more data after its object, at byte %d; send one object a message", d.InputOffset())
}

// notJSON returns an error of the JSON decoder as one of ours.
func notJSON(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF):
		return timer.Invalid(timer.ReasonNotJSON, "body is empty; send one JSON object")
	case !ok:
		return timer.Invalid(timer.ReasonNotJSON, "body is not JSON: %s", visible(err.Error()))
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return timer.Invalid(timer.ReasonDuplicateKey, "key %s occurs twice; name it once", timer.Quote(syntax.JSONPointer.LastToken()))
	}
	return timer.Invalid(timer.ReasonNotJSON, "body is not JSON at byte %d: %s", syntax.ByteOffset, visible(syntax.Err.Error()))
}

// visible replaces all characters but printable ASCII.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if notPrintable(r) {
			return '?'
		}
		return r
	}, s)
}

// unquote returns the text of a well-formed JSON string. It shares the memory of
// the string if nothing in it is escaped.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	plain, _ := jsontext.AppendUnquote(nil, quoted) // the decoder has found it well formed
	return plain
}

// validBytes returns how many bytes at the beginning of b are UTF-8, if not all
// are.
func validBytes(b []byte) int {
	valid, n := bytes.ToValidUTF8(b, []byte("?")), 0
	for b[n] == valid[n] {
		n++
	}
	return n
}
