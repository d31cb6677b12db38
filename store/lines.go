package store

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

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

// The lines of an export. The order of the fields is the order in the file.
type (
	headerLine struct {
		Kind          string `json:"kind"`
		Format        string `json:"format"`
		Version       int    `json:"version"`
		Source        string `json:"source,omitzero"`
		SchemaVersion int64  `json:"schemaVersion"`
		ExportedAt    stamp  `json:"exportedAt,omitzero"`
	}
	timerLine struct {
		Kind          Kind                `json:"kind"`
		TenantID      timer.TenantID      `json:"tenantId,omitzero"`
		ServiceCallID timer.ServiceCallID `json:"serviceCallId,omitzero"`
		State         timer.State         `json:"state,omitzero"`
		DueAt         stamp               `json:"dueAt,omitzero"`
		RegisteredAt  stamp               `json:"registeredAt,omitzero"`
		ReachedAt     stamp               `json:"reachedAt,omitzero"`
		CanceledAt    stamp               `json:"canceledAt,omitzero"`
		CorrelationID string              `json:"correlationId,omitzero"`
		TimestampMS   int64               `json:"timestampMs"`
		CommandID     string              `json:"commandId,omitzero"`
		TraceParent   string              `json:"traceparent,omitzero"`
		TraceState    string              `json:"tracestate,omitzero"`
		Data          string              `json:"data,omitzero"` // a text, so that not a byte of it changes
	}
	eventLine struct {
		Kind       Kind              `json:"kind"`
		ID         string            `json:"id,omitzero"`
		AppendedAt stamp             `json:"appendedAt,omitzero"`
		ParkedAt   stamp             `json:"parkedAt,omitzero"`
		Attempts   int               `json:"attempts"`
		LastError  string            `json:"lastError,omitzero"`
		Headers    map[string]string `json:"headers"`
		Body       *string           `json:"body,omitzero"`       // if it is UTF-8
		BodyBase64 []byte            `json:"bodyBase64,omitzero"` // else
	}
	trailerLine struct {
		Kind      string `json:"kind"`
		Scheduled int64  `json:"scheduled"`
		Reached   int64  `json:"reached"`
		Canceled  int64  `json:"canceled"`
		Outbox    int64  `json:"outbox"`
		Parked    int64  `json:"parked"`
		SHA256    string `json:"sha256,omitzero"`
	}
)

// A stamp is a time in a line.
type stamp time.Time

// IsZero reports whether there is no time.
func (s stamp) IsZero() bool { return time.Time(s).IsZero() }

// MarshalText returns the time as messages carry it.
func (s stamp) MarshalText() ([]byte, error) {
	if y := time.Time(s).UTC().Year(); y < 1 || y > 9999 {
		return nil, fieldError(fmt.Sprintf("is in the year %d, which RFC 3339 has not", y))
	}
	return []byte(envelope.FormatTime(time.Time(s))), nil
}

// UnmarshalText accepts what MarshalText returns.
func (s *stamp) UnmarshalText(text []byte) error {
	t, err := time.Parse("2006-01-02T15:04:05.000Z", string(text))
	if err != nil || t.IsZero() {
		return fieldError(fmt.Sprintf("is %s, want a time like 2030-01-31T12:00:00.000Z", timer.Quote(string(text))))
	}
	*s = stamp(t)
	return nil
}

// A fieldError is what is wrong with a field; the name of the field precedes it.
type fieldError string

// Error returns the text.
func (e fieldError) Error() string { return string(e) }

// A lineEncoder encodes lines. There is one way to encode a record, so that equal
// stores have equal exports.
type lineEncoder struct {
	buffer bytes.Buffer
	json   *jsontext.Encoder
}

func newLineEncoder() *lineEncoder {
	e := new(lineEncoder)
	e.json = jsontext.NewEncoder(&e.buffer)
	return e
}

// line returns the line of a value, with its end. It is valid until the next call.
func (e *lineEncoder) line(v any) ([]byte, error) {
	e.buffer.Reset()
	err := json.MarshalEncode(e.json, v, json.Deterministic(true))
	return e.buffer.Bytes(), plain(err)
}

// matches returns an error unless a line, without its end, is that of a value.
func (e *lineEncoder) matches(line []byte, v any) error {
	again, err := e.line(v)
	if err != nil {
		return err
	}
	return sameLine(line, again)
}

// sameLine returns an error unless a line that was decoded, without its end, is
// encoded as it was.
func sameLine(line, again []byte) error {
	if bytes.Equal(bytes.TrimSuffix(again, []byte("\n")), line) {
		return nil
	}
	return errForm
}

var errForm = errors.New("it is not written as export writes it: the order of the fields, a space, or a field that is missing or empty")

func newHeaderLine(h Header) headerLine {
	return headerLine{kindHeader, formatName, formatVersion, h.Source, h.SchemaVersion, stamp(h.ExportedAt)}
}

func newTrailerLine(s Summary) trailerLine {
	return trailerLine{kindTrailer, s.Timers.Scheduled, s.Timers.Reached, s.Timers.Canceled, s.Outbox, s.Parked, s.SHA256}
}

// record returns the line of a record.
func (e *lineEncoder) record(r *Record) (line []byte, err error) {
	if err = r.validateTexts(); err == nil {
		if r.Kind == KindTimer {
			line, err = e.line(newTimerLine(&r.Timer))
		} else {
			line, err = e.line(newEventLine(r.Kind, &r.Event))
		}
	}
	if err == nil && len(line) > maxLine {
		err = fmt.Errorf("it takes more than %d bytes", maxLine)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name(), err)
	}
	return line, nil
}

func newTimerLine(e *timer.Entry) *timerLine {
	return &timerLine{
		Kind: KindTimer, TenantID: e.TenantID, ServiceCallID: e.ServiceCallID, State: e.State,
		DueAt: stamp(e.DueAt), RegisteredAt: stamp(e.RegisteredAt), ReachedAt: stamp(e.ReachedAt), CanceledAt: stamp(e.CanceledAt),
		CorrelationID: e.CorrelationID, TimestampMS: e.TimestampMS, CommandID: e.CommandID, TraceParent: e.Trace.Parent, TraceState: e.Trace.State, Data: e.Data,
	}
}

func decodeTimer(line []byte) (timer.Entry, error) {
	var l timerLine
	if err := strict(line, &l); err != nil {
		return timer.Entry{}, err
	}
	e := timer.Entry{
		Key:     timer.Key{TenantID: l.TenantID, ServiceCallID: l.ServiceCallID},
		Version: timer.Version{TimestampMS: l.TimestampMS, CommandID: l.CommandID},
		State:   l.State, CorrelationID: l.CorrelationID, Trace: timer.Trace{Parent: l.TraceParent, State: l.TraceState}, Data: l.Data,
		DueAt: time.Time(l.DueAt), RegisteredAt: time.Time(l.RegisteredAt), ReachedAt: time.Time(l.ReachedAt), CanceledAt: time.Time(l.CanceledAt),
	}
	return e, validateTimer(e)
}

func newEventLine(kind Kind, e *Event) *eventLine {
	l := &eventLine{
		Kind: kind, ID: e.ID, AppendedAt: stamp(e.AppendedAt), ParkedAt: stamp(e.ParkedAt),
		Attempts: e.Attempts, LastError: Printable(e.LastError), Headers: e.Headers,
	}
	if utf8.Valid(e.Body) {
		body := string(e.Body)
		l.Body = &body
	} else {
		l.BodyBase64 = e.Body
	}
	return l
}

func decodeEvent(line []byte, kind Kind) (Event, error) {
	var l eventLine
	if err := strict(line, &l); err != nil {
		return Event{}, err
	}
	e := Event{
		ID: l.ID, AppendedAt: time.Time(l.AppendedAt), ParkedAt: time.Time(l.ParkedAt),
		Attempts: l.Attempts, LastError: l.LastError, Headers: l.Headers, Body: l.BodyBase64,
	}
	if l.BodyBase64 == nil && l.Body != nil {
		e.Body = []byte(*l.Body)
	}
	return e, validateEvent(e, kind)
}

// strict decodes a line that must have known fields only, each once.
func strict(line []byte, v any) error {
	return plain(json.Unmarshal(line, v, json.RejectUnknownMembers(true)))
}

// plain returns an error of the JSON library in words for the user of a file.
func plain(err error) error {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		field := semantic.JSONPointer.LastToken()
		if wrong, ok := errors.AsType[fieldError](err); ok {
			return fmt.Errorf("%s %w", field, wrong)
		}
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return fmt.Errorf("the field %s is not known", timer.Quote(field))
		case semantic.Err != nil:
			return fmt.Errorf("%s: %w", field, semantic.Err)
		}
		return fmt.Errorf("the field %s has the wrong type", timer.Quote(field))
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("the field %s occurs twice", timer.Quote(syntactic.JSONPointer.LastToken()))
		}
		return fmt.Errorf("it is not valid JSON at byte %d: %w", syntactic.ByteOffset, syntactic.Err)
	}
	return err
}
