package store

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Kind says what a record is.
type Kind string

// Kinds of records, in the order of an export.
const (
	KindTimer  Kind = "timer"
	KindOutbox Kind = "event"  // waits for the broker
	KindParked Kind = "parked" // an event that the broker refused for good
)

// A Record is one row of a store.
type Record struct {
	Kind  Kind
	Timer timer.Entry // if it is a timer
	Event Event       // if it is an event
}

// An Event is a row of the outbox, or a parked one.
type Event struct {
	ID         string            // the broker's dedupe id
	AppendedAt time.Time         //
	ParkedAt   time.Time         // zero in the outbox
	Attempts   int               // publishes that failed though the broker was well
	LastError  string            // of the last of them; may be empty
	Headers    map[string]string //
	Body       []byte            // as consumers get it
}

// HeadersText returns the headers as a JSON object, sorted by name.
func (e Event) HeadersText() (string, error) {
	b, err := appendHeaders(nil, e.Headers)
	return string(b), err
}

// name returns what a record is, for errors.
func (r *Record) name() string {
	if r.Kind == KindTimer {
		return "timer " + timer.Quote(r.Timer.Key.String())
	}
	return string(r.Kind) + " " + timer.Quote(r.Event.ID)
}

// Format of an export.
const (
	formatName    = "timer-service-export"
	formatVersion = 1
)

// Kinds of lines that are no records.
const (
	kindHeader  = "header"
	kindTrailer = "trailer"
)

// A lineWriter appends a line of JSON. There is one way to write a record, so
// that equal stores have equal exports: an order of fields, no spaces, and
// nothing for what is empty.
type lineWriter struct {
	b   []byte
	err error
}

func begin(b []byte, kind string) *lineWriter {
	return &lineWriter{b: append(append(append(b, `{"kind":"`...), kind...), '"')}
}

func (l *lineWriter) end() []byte { return append(l.b, "}\n"...) }

func (l *lineWriter) name(name string) {
	l.b = append(append(append(l.b, `,"`...), name...), `":`...)
}

// text appends a field unless it is empty.
func (l *lineWriter) text(name, value string) {
	if value == "" {
		return
	}
	l.name(name)
	l.string(name, value)
}

// string appends a string. PostgreSQL takes no zero in a text.
func (l *lineWriter) string(name, value string) {
	var err error
	if l.b, err = jsontext.AppendQuote(l.b, value); err == nil && strings.IndexByte(value, 0) >= 0 {
		err = fmt.Errorf("%s has a zero byte", timer.Quote(value))
	}
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("%s is no text: %w", name, err)
	}
}

func (l *lineWriter) number(name string, value int64) {
	l.name(name)
	l.b = strconv.AppendInt(l.b, value, 10)
}

// time appends a time as messages carry it, unless it is zero.
func (l *lineWriter) time(name string, value time.Time) {
	if value.IsZero() {
		return
	}
	if y := value.UTC().Year(); (y < 1 || y > 9999) && l.err == nil {
		l.err = fmt.Errorf("%s is in the year %d, which RFC 3339 has not", name, y)
	}
	l.name(name)
	l.b = append(append(append(l.b, '"'), envelope.FormatTime(value)...), '"')
}

func appendHeader(b []byte, h Header) []byte {
	l := begin(b, kindHeader)
	l.text("format", formatName)
	l.number("version", formatVersion)
	l.text("source", h.Source)
	l.number("schemaVersion", h.SchemaVersion)
	l.time("exportedAt", h.ExportedAt)
	return l.end()
}

func appendTrailer(b []byte, s Summary) []byte {
	l := begin(b, kindTrailer)
	l.number("scheduled", s.Timers.Scheduled)
	l.number("reached", s.Timers.Reached)
	l.number("canceled", s.Timers.Canceled)
	l.number("outbox", s.Outbox)
	l.number("parked", s.Parked)
	l.text("sha256", s.SHA256)
	return l.end()
}

// appendRecord appends the line of a record.
func appendRecord(b []byte, r *Record) ([]byte, error) {
	l := begin(b, string(r.Kind))
	if r.Kind == KindTimer {
		l.timer(&r.Timer)
	} else {
		l.event(&r.Event)
	}
	if b = l.end(); len(b) > maxLine && l.err == nil {
		l.err = fmt.Errorf("it takes more than %d bytes", maxLine)
	}
	if l.err != nil {
		return b, fmt.Errorf("%s: %w", r.name(), l.err)
	}
	return b, nil
}

func (l *lineWriter) timer(e *timer.Entry) {
	l.text("tenantId", string(e.TenantID))
	l.text("serviceCallId", string(e.ServiceCallID))
	l.text("state", string(e.State))
	l.time("dueAt", e.DueAt)
	l.time("registeredAt", e.RegisteredAt)
	l.time("reachedAt", e.ReachedAt)
	l.time("canceledAt", e.CanceledAt)
	l.text("correlationId", e.CorrelationID)
	l.number("timestampMs", e.TimestampMS)
	l.text("commandId", e.CommandID)
	l.text("traceparent", e.Trace.Parent)
	l.text("tracestate", e.Trace.State)
}

func (l *lineWriter) event(e *Event) {
	l.text("id", e.ID)
	l.time("appendedAt", e.AppendedAt)
	l.time("parkedAt", e.ParkedAt)
	l.number("attempts", int64(e.Attempts))
	l.text("lastError", Printable(e.LastError))
	l.name("headers")
	headers, err := appendHeaders(l.b, e.Headers)
	if l.b = headers; err != nil && l.err == nil {
		l.err = err
	}
	if utf8.Valid(e.Body) {
		l.name("body")
		l.b, _ = jsontext.AppendQuote(l.b, e.Body) // it is valid
		return
	}
	l.name("bodyBase64")
	l.b = append(base64.StdEncoding.AppendEncode(append(l.b, '"'), e.Body), '"')
}

// Printable returns what a broker said as text that any database takes and any
// line can hold, whatever it said.
func Printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// appendHeaders appends a JSON object, sorted by name.
func appendHeaders(b []byte, headers map[string]string) ([]byte, error) {
	l := &lineWriter{b: append(b, '{')}
	for i, name := range slices.Sorted(maps.Keys(headers)) {
		if i > 0 {
			l.b = append(l.b, ',')
		}
		l.string("the name of a header", name)
		l.b = append(l.b, ':')
		l.string("header "+name, headers[name])
	}
	return append(l.b, '}'), l.err
}
