package envelope

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// A value is what a body holds under a key: a string, number or literal as it
// stands there, only the bracket of an object or array, or nothing if the key is
// absent.
type value []byte

// What is kept of objects and arrays.
var (
	anObject = value("{")
	anArray  = value("[")
)

// fields are the values of the keys that have a meaning in some message.
type fields struct {
	id, kind, tenantID, aggregateID, timestampMS, correlationID, causationID value

	payload value
	inner   struct{ tenantID, serviceCallID, dueAt, reachedAt value } // of the payload

	specVersion value       // there is one: read it again, as a CloudEvent
	cloud       *attributes // nil in an envelope
}

// top returns where the value of a key of the envelope is kept, or nil.
func (f *fields) top(key []byte) *value {
	switch string(key) {
	case "id":
		return &f.id
	case "type":
		return &f.kind
	case "tenantId":
		return &f.tenantID
	case "aggregateId":
		return &f.aggregateID
	case "timestampMs":
		return &f.timestampMS
	case "correlationId":
		return &f.correlationID
	case "causationId":
		return &f.causationID
	case "payload":
		return &f.payload
	case "specversion":
		return &f.specVersion
	}
	return nil
}

// within returns where the value of a key of the payload is kept, or nil.
func (f *fields) within(key []byte) *value {
	switch string(key) {
	case "tenantId":
		return &f.inner.tenantID
	case "serviceCallId":
		return &f.inner.serviceCallID
	case "dueAt":
		return &f.inner.dueAt
	case "reachedAt":
		return &f.inner.reachedAt
	}
	return nil
}

// A scanner reads one body at a time. Scanners are reused, since they are large.
type scanner struct {
	json   jsontext.Decoder
	reader bytes.Buffer
	fields fields // refer to the body
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// reset makes s ready for a body.
func (s *scanner) reset(body []byte, options ...jsontext.Options) {
	s.fields = fields{}
	s.reader = *bytes.NewBuffer(body)
	s.json.Reset(&s.reader, options...)
}

// release gives s back, without a reference to the body.
func (s *scanner) release() {
	s.reset(nil)
	scanners.Put(s)
}

// byteOrderMark is the one of UTF-8.
var byteOrderMark = []byte("\uFEFF")

// scan sets the fields of a body that is one well-formed JSON object within the
// limits.
func (s *scanner) scan(body []byte) error {
	switch {
	case len(body) > MaxBytes:
		return timer.Invalid(timer.ReasonTooLarge, "body has %d bytes; send at most %d", len(body), MaxBytes)
	case bytes.HasPrefix(body, byteOrderMark):
		return timer.Invalid(timer.ReasonNotJSON, "body begins with a byte order mark; send the JSON without it")
	case !utf8.Valid(body):
		return timer.Invalid(timer.ReasonNotUTF8, "body is not UTF-8 at byte %d; encode it as UTF-8", validBytes(body))
	}
	s.reset(body)
	if s.json.PeekKind() != jsontext.KindBeginObject {
		return s.noObject()
	}
	err := s.object((*fields).top)
	if errors.Is(err, errCloudEvent) {
		s.reset(body)
		err = s.cloudEvent()
	}
	if err != nil {
		return err
	}
	if offset := s.json.InputOffset(); len(bytes.TrimLeft(body[offset:], " \t\r\n")) > 0 {
		return timer.Invalid(timer.ReasonNotJSON, "body goes on after its object, at byte %d; send one object a message", offset)
	}
	return nil
}

// errCloudEvent says that a body has the key specversion.
var errCloudEvent = errors.New("a CloudEvent")

// noObject says what the body is instead.
func (s *scanner) noObject() error {
	v, err := s.json.ReadValue()
	if err != nil {
		return broken(err)
	}
	return timer.Invalid(timer.ReasonNotJSON, "body is %s; send one JSON object", name(v[0]))
}

// object reads an object and keeps the values of keys that have a place.
func (s *scanner) object(place func(*fields, []byte) *value) error {
	if _, err := s.json.ReadToken(); err != nil {
		return broken(err)
	}
	for s.json.PeekKind() != jsontext.KindEndObject {
		key, err := s.json.ReadValue()
		if err != nil {
			return broken(err)
		}
		kept := place(&s.fields, unquote(key))
		if kept == &s.fields.specVersion {
			return errCloudEvent
		}
		got, err := s.value(kept == &s.fields.payload)
		if err != nil {
			return err
		}
		if kept != nil {
			*kept = got
		}
	}
	_, err := s.json.ReadToken()
	return broken(err)
}

// value reads a value. It goes into the payload, and over what it holds of other
// objects and arrays.
func (s *scanner) value(payload bool) (value, error) {
	switch kind := s.json.PeekKind(); {
	case kind == jsontext.KindBeginObject && payload:
		return anObject, s.object((*fields).within)
	case kind == jsontext.KindBeginObject:
		return anObject, s.skip()
	case kind == jsontext.KindBeginArray:
		return anArray, s.skip()
	}
	v, err := s.json.ReadValue()
	return value(v), broken(err)
}

// skip reads an object or array of no interest.
func (s *scanner) skip() error {
	for outside := s.json.StackDepth(); ; {
		if _, err := s.json.ReadToken(); err != nil {
			return broken(err)
		}
		switch depth := s.json.StackDepth(); {
		case depth == outside:
			return nil
		case depth > MaxDepth:
			return timer.Invalid(timer.ReasonTooDeep, "body is nested deeper than %d at byte %d; flatten it", MaxDepth, s.json.InputOffset())
		}
	}
}

// broken returns an error of the JSON decoder as one of ours, or nil for nil.
func broken(err error) error {
	if err == nil {
		return nil
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case errors.Is(err, io.EOF):
		return timer.Invalid(timer.ReasonNotJSON, "body is empty; send one JSON object")
	case !ok:
		return timer.Invalid(timer.ReasonNotJSON, "body is not JSON: %s", visible(err.Error()))
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return timer.Invalid(timer.ReasonDuplicateKey, "key %s is there twice; name it once", timer.Quote(syntax.JSONPointer.LastToken()))
	}
	return timer.Invalid(timer.ReasonNotJSON, "body is not JSON at byte %d: %s", syntax.ByteOffset, visible(syntax.Err.Error()))
}

// visible replaces whatever is not printable ASCII.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// unquote returns what a well-formed JSON string says. It refers to the string
// if nothing in it is escaped.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	plain, _ := jsontext.AppendUnquote(nil, quoted) // the decoder has found it well formed
	return plain
}

// validBytes returns how many bytes at the beginning of b are UTF-8.
func validBytes(b []byte) int {
	n := 0
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}
