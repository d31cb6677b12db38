package envelope

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// A value is the JSON value of a key as written in the body, or nil if the key is
// absent. It shares the memory of the body.
type value []byte

// ambiguous is the value of a key that is there more than once, which only [OriginOf] reads: it
// is valid for no field.
var ambiguous = value("[]")

// UnmarshalJSONFrom accepts any JSON value.
func (v *value) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	if *v != nil {
		raw = jsontext.Value(ambiguous)
	}
	*v = value(raw)
	return err
}

// fields holds the values of all keys that have a meaning in some message. For a CloudEvent,
// fromCloudEvent sets the fields of the envelope.
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

// byteOrderMark is the byte order mark in UTF-8.
var byteOrderMark = []byte("\uFEFF")

// read reads a body that is one well-formed JSON object within the limits.
func (f *fields) read(body []byte) error {
	switch {
	case len(body) > MaxBytes:
		return timer.Invalid(timer.ReasonTooLarge, "body has %d bytes; send at most %d", len(body), MaxBytes)
	case bytes.HasPrefix(body, byteOrderMark):
		return timer.Invalid(timer.ReasonNotJSON, "body begins with a byte order mark; send the JSON without it")
	case !utf8.Valid(body):
		return timer.Invalid(timer.ReasonNotUTF8, "body is not UTF-8; encode it as UTF-8")
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
		return timer.Invalid(timer.ReasonNotJSON, "body is %s; send one JSON object", kindNames[kind])
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
		return timer.Invalid(timer.ReasonNotJSON, "body is not JSON: %s", Visible(err.Error()))
	case errors.Is(syntax.Err, jsontext.ErrDuplicateName):
		return timer.Invalid(timer.ReasonDuplicateKey, "key %s occurs twice; name it once", timer.Quote(syntax.JSONPointer.LastToken()))
	}
	return timer.Invalid(timer.ReasonNotJSON, "body is not JSON at byte %d: %s", syntax.ByteOffset, Visible(syntax.Err.Error()))
}

// Visible returns s with a question mark for each character that is not printable ASCII, so
// that it fits a header.
func Visible(s string) string {
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
	plain, _ := jsontext.AppendUnquote(nil, quoted) // no error: the decoder has checked it
	return plain
}

// maxOffset is the greatest distance of a zone from UTC, in seconds.
const maxOffset = 14 * 60 * 60

// FormatTime returns t as messages carry it: RFC 3339 in UTC with exactly three digits of
// fraction. It cuts off the rest, so a due time has to be rounded up first.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ParseTime reads a time of a message: RFC 3339 with a zone of at most ±14:00 and any number
// of digits of fraction. A rest finer than a millisecond rounds up. The result is in UTC and
// within the years 2000 to 2200. The letters T and Z may be lower case, as the RFC allows. A
// space instead of the T, a comma, 24:00 and the leap second :60 are refused.
func ParseTime(s string) (time.Time, error) { return ParseTimeOf("time", s) }

// ParseTimeOf is [ParseTime] of a field, which the error names.
func ParseTimeOf(field, s string) (time.Time, error) { return parseTime(field, []byte(s), up) }

// A rounding says how a rest finer than a millisecond is rounded.
type rounding int

const (
	down rounding = iota
	up
)

// parseTime is ParseTime with the name of the field for the error.
func parseTime(field string, text []byte, r rounding) (t time.Time, err error) {
	upper := text
	if bytes.ContainsAny(text, "tz") {
		upper = bytes.ToUpper(text)
	}
	err = t.UnmarshalText(upper)
	if _, offset := t.Zone(); err != nil || lenient(upper) || offset > maxOffset || offset < -maxOffset {
		return time.Time{}, timer.Invalid(timer.ReasonBadTime, "%s %s %s", field, timer.Quote(string(text)), timeMistake(text))
	}
	t = timer.RoundDown(t)
	if r == up && finerThanMS(text) {
		t = t.Add(time.Millisecond)
	}
	if timer.ValidateDueAt(t) != nil {
		return time.Time{}, timer.Invalid(timer.ReasonBadTime, "%s %s is outside the years 2000 to 2200, UTC", field, timer.Quote(string(text)))
	}
	return t, nil
}

// lenient reports whether a time has a mistake that package time accepts: an hour of one
// digit, a comma, or minutes of an offset above 59 (https://go.dev/issue/54580).
func lenient(text []byte) bool {
	last := len(text) - 1
	return text[13] != ':' || text[19] == ',' || text[last] != 'Z' && text[last-1] > '5'
}

// finerThanMS reports whether the fraction of a valid time has a digit other than 0 after the
// third one. Package time would drop digits after the ninth.
func finerThanMS(text []byte) bool {
	_, fraction, _ := bytes.Cut(text, []byte("."))
	for i, c := range fraction {
		switch {
		case c < '0' || c > '9':
			return false
		case i >= 3 && c > '0':
			return true
		}
	}
	return false
}

var timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d`)

// timeMistakes explain why a time is refused although it has the form and its date exists.
// The first one that matches counts.
var timeMistakes = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`^.{11}(2[4-9]|[3-9])`), "has an hour above 23; midnight is 00:00 of the next day"},
	{regexp.MustCompile(`^.{14}[6-9]`), "has a minute above 59"},
	{regexp.MustCompile(`^.{17}60`), "has a leap second, which is not supported; name the next full second"},
	{regexp.MustCompile(`^.{17}[6-9]`), "has a second above 60"},
	{regexp.MustCompile(`^.{19},`), "has a comma before the fraction; write a point"},
	{regexp.MustCompile(`^.{19}\.(\D|$)`), "has no digit after the point"},
	{regexp.MustCompile(`^.{19}(\.\d+)?$`), "has no zone; end it with Z or an offset like +01:00"},
	{regexp.MustCompile(`^.{19}(\.\d+)?[+-]\d\d:\d\d$`), "has an offset beyond 14:00, or minutes of an offset above 59"},
}

// timeMistake explains why a time is refused.
func timeMistake(text []byte) string {
	if !timeForm.Match(text) {
		return "is not RFC 3339; write it like 2030-01-31T12:00:00.000Z"
	}
	if _, err := time.Parse(time.DateOnly, string(text[:len(time.DateOnly)])); err != nil {
		return "names a month or a day that does not exist"
	}
	for _, m := range timeMistakes {
		if m.pattern.Match(text) {
			return m.text
		}
	}
	return "ends in something that is no zone; end it with Z or an offset like +01:00"
}
