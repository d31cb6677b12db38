package store

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/event-service-agent/timer-service/timer"
)

// maxLine is the longest line, in bytes.
const maxLine = 16 << 20

// A lineReader reads the lines of an export, and counts them.
type lineReader struct {
	r      *bufio.Reader
	number int    // of the last line
	long   []byte // a line that does not fit the reader's buffer
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 1<<16)} }

// at returns an error that begins with the number of the line.
func (l *lineReader) at(err error) error { return fmt.Errorf("line %d: %w", l.number, err) }

// next returns a line without its end, which is valid until the next one, or
// io.EOF. It counts the line that is not there, too.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.r.ReadSlice('\n')
			if l.long = append(l.long, line...); len(l.long) > maxLine {
				return nil, l.at(fmt.Errorf("it has more than %d bytes", maxLine))
			}
		}
		line = l.long
	}
	switch {
	case err == nil:
		return line[:len(line)-1], nil
	case !errors.Is(err, io.EOF):
		return nil, l.at(err)
	case len(line) == 0:
		return nil, io.EOF
	}
	return line, nil
}

// A wireHeader is the first line.
type wireHeader struct {
	Kind          string `json:"kind"`
	Format        string `json:"format"`
	Version       int    `json:"version"`
	Source        string `json:"source"`
	SchemaVersion int64  `json:"schemaVersion"`
	ExportedAt    string `json:"exportedAt"`
}

// header reads the first line.
func (l *lineReader) header() (Header, error) {
	line, err := l.next()
	if errors.Is(err, io.EOF) {
		return Header{}, l.at(errors.New("there is nothing"))
	}
	if err != nil {
		return Header{}, err
	}
	// The version first: what a newer one may hold is not known.
	var w wireHeader
	if err := json.Unmarshal(line, &w); err != nil || w.Kind != kindHeader || w.Format != formatName {
		return Header{}, l.at(errors.New("this is no export of the timer service"))
	}
	if w.Version != formatVersion {
		return Header{}, l.at(fmt.Errorf("the export has version %d, this binary knows %d: use a newer binary", w.Version, formatVersion))
	}
	h := Header{Source: w.Source, SchemaVersion: w.SchemaVersion}
	if err := strict(line, new(wireHeader)); err != nil {
		return Header{}, l.at(err)
	}
	if h.ExportedAt, err = parseTime("exportedAt", w.ExportedAt); err != nil {
		return Header{}, l.at(err)
	}
	if !bytes.Equal(bytes.TrimSuffix(appendHeader(nil, h), newline), line) {
		return Header{}, l.at(errForm)
	}
	return h, nil
}

var newline = []byte("\n")

// errForm says that a line holds what it may hold, but not as we write it.
var errForm = errors.New("it is not written as export writes it: the order of the fields, a space, or a field that is missing or empty")

// strict decodes a line that must have known fields only, each once.
func strict(line []byte, v any) error {
	err := json.Unmarshal(line, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		field := timer.Quote(semantic.JSONPointer.LastToken())
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("the field %s is not known", field)
		}
		return fmt.Errorf("the field %s is of another type than it is to be", field)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("the field %s stands there twice", timer.Quote(syntactic.JSONPointer.LastToken()))
		}
		return fmt.Errorf("it is no JSON at byte %d: %w", syntactic.ByteOffset, syntactic.Err)
	}
	return err
}

// wireTime is how times are written.
const wireTime = "2006-01-02T15:04:05.000Z"

// parseTime reads a time, zero if there is none.
func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(wireTime, text)
	if err != nil || t.IsZero() {
		return t, fmt.Errorf("%s is %s, want a time like 2030-01-31T12:00:00.000Z", name, timer.Quote(text))
	}
	return t, nil
}

// A wireTimer is the line of a timer.
type wireTimer struct {
	Kind          string              `json:"kind"`
	TenantID      timer.TenantID      `json:"tenantId"`
	ServiceCallID timer.ServiceCallID `json:"serviceCallId"`
	State         timer.State         `json:"state"`
	DueAt         string              `json:"dueAt"`
	RegisteredAt  string              `json:"registeredAt"`
	ReachedAt     string              `json:"reachedAt"`
	CanceledAt    string              `json:"canceledAt"`
	CorrelationID string              `json:"correlationId"`
	TimestampMS   int64               `json:"timestampMs"`
	CommandID     string              `json:"commandId"`
	TraceParent   string              `json:"traceparent"`
	TraceState    string              `json:"tracestate"`
}

func decodeTimer(line []byte) (e timer.Entry, err error) {
	var w wireTimer
	if err := strict(line, &w); err != nil {
		return e, err
	}
	e = timer.Entry{
		Key:           timer.Key{TenantID: w.TenantID, ServiceCallID: w.ServiceCallID},
		Version:       timer.Version{TimestampMS: w.TimestampMS, CommandID: w.CommandID},
		State:         w.State,
		CorrelationID: w.CorrelationID,
		Trace:         timer.Trace{Parent: w.TraceParent, State: w.TraceState},
	}
	for _, t := range [...]struct {
		name string
		text string
		time *time.Time
	}{
		{"dueAt", w.DueAt, &e.DueAt},
		{"registeredAt", w.RegisteredAt, &e.RegisteredAt},
		{"reachedAt", w.ReachedAt, &e.ReachedAt},
		{"canceledAt", w.CanceledAt, &e.CanceledAt},
	} {
		if *t.time, err = parseTime(t.name, t.text); err != nil {
			return e, err
		}
	}
	return e, validate(e)
}

// validate returns an error unless a timer is one that a store can hold.
func validate(e timer.Entry) error {
	if err := e.Key.Validate(); err != nil {
		return err
	}
	if err := e.Version.Validate(); err != nil {
		return err
	}
	if e.CorrelationID != "" {
		if err := timer.ValidateID("correlationId", e.CorrelationID); err != nil {
			return err
		}
	}
	if !e.DueAt.IsZero() {
		if err := timer.ValidateDueAt(e.DueAt); err != nil {
			return err
		}
	}
	switch {
	case e.State != timer.Scheduled && e.State != timer.Reached && e.State != timer.Canceled:
		return fmt.Errorf("state is %s, want Scheduled, Reached or Canceled", timer.Quote(string(e.State)))
	case e.RegisteredAt.IsZero():
		return errors.New("registeredAt is missing")
	case e.DueAt.IsZero() && e.State != timer.Canceled:
		return fmt.Errorf("dueAt is missing, though it is %s", e.State)
	case e.ReachedAt.IsZero() == (e.State == timer.Reached):
		return errors.New("reachedAt goes with Reached, and with nothing else")
	case e.CanceledAt.IsZero() == (e.State == timer.Canceled):
		return errors.New("canceledAt goes with Canceled, and with nothing else")
	case e.State == timer.Reached && e.ReachedAt.Before(e.DueAt):
		return errors.New("reachedAt is before dueAt")
	}
	return nil
}

// A wireEvent is the line of an event.
type wireEvent struct {
	Kind       string            `json:"kind"`
	ID         string            `json:"id"`
	AppendedAt string            `json:"appendedAt"`
	ParkedAt   string            `json:"parkedAt"`
	Attempts   int               `json:"attempts"`
	LastError  string            `json:"lastError"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	BodyBase64 string            `json:"bodyBase64"`
}

func decodeEvent(line []byte, kind Kind) (e Event, err error) {
	var w wireEvent
	if err := strict(line, &w); err != nil {
		return e, err
	}
	e = Event{ID: w.ID, Attempts: w.Attempts, LastError: w.LastError, Headers: w.Headers, Body: []byte(w.Body)}
	if w.BodyBase64 != "" {
		if e.Body, err = base64.StdEncoding.DecodeString(w.BodyBase64); err != nil {
			return e, fmt.Errorf("bodyBase64: %w", err)
		}
	}
	if e.AppendedAt, err = parseTime("appendedAt", w.AppendedAt); err != nil {
		return e, err
	}
	if e.ParkedAt, err = parseTime("parkedAt", w.ParkedAt); err != nil {
		return e, err
	}
	if err := timer.ValidateID("id", e.ID); err != nil {
		return e, err
	}
	switch {
	case e.AppendedAt.IsZero():
		return e, errors.New("appendedAt is missing")
	case e.ParkedAt.IsZero() == (kind == KindParked):
		return e, errors.New("parkedAt goes with parked events, and with nothing else")
	case e.Attempts < 0:
		return e, errors.New("attempts is negative")
	}
	return e, nil
}

// A wireTrailer is the last line.
type wireTrailer struct {
	Kind      string `json:"kind"`
	Scheduled int64  `json:"scheduled"`
	Reached   int64  `json:"reached"`
	Canceled  int64  `json:"canceled"`
	Outbox    int64  `json:"outbox"`
	Parked    int64  `json:"parked"`
	SHA256    string `json:"sha256"`
}

func decodeTrailer(line []byte) (Summary, error) {
	var w wireTrailer
	if err := strict(line, &w); err != nil {
		return Summary{}, err
	}
	return Summary{
		Timers: timer.Counts{Scheduled: w.Scheduled, Reached: w.Reached, Canceled: w.Canceled},
		Outbox: w.Outbox, Parked: w.Parked, SHA256: w.SHA256,
	}, nil
}
