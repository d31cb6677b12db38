package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

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

// Kinds of lines.
const (
	kindHeader  = "header"
	kindTimer   = "timer"
	kindMessage = "message"
	kindTrailer = "trailer"

	kindEvent, kindParked = "event", "parked" // programs from before 0.1.0 wrote them
)

// The lines of an export. The order of the fields is the order in the file. Those at the
// end were written by programs from before 0.1.0, whose exports are the way to this one;
// they are read and have no meaning.
type (
	headerLine struct {
		Kind       string `json:"kind"`
		Format     string `json:"format"`
		Version    int    `json:"version"`
		ExportedAt stamp  `json:"exportedAt,omitzero"`

		TenantID timer.TenantID `json:"tenantId,omitzero"` // version 0.1.0 could export one tenant
	}
	timerLine struct {
		Kind          string              `json:"kind"`
		TenantID      timer.TenantID      `json:"tenantId,omitzero"`
		ServiceCallID timer.ServiceCallID `json:"serviceCallId,omitzero"`
		State         timer.State         `json:"state,omitzero"`
		DueAt         stamp               `json:"dueAt,omitzero"`
		ExpiresAt     stamp               `json:"expiresAt,omitzero"`
		ReachedAt     stamp               `json:"reachedAt,omitzero"`
		CorrelationID string              `json:"correlationId,omitzero"`
		TimestampMS   int64               `json:"timestampMs"`
		CommandID     string              `json:"commandId,omitzero"`
		TraceParent   string              `json:"traceparent,omitzero"`
		TraceState    string              `json:"tracestate,omitzero"`
		Data          string              `json:"data,omitzero"` // a text, so that not a byte of it changes

		RegisteredAt stamp `json:"registeredAt,omitzero"`
		CanceledAt   stamp `json:"canceledAt,omitzero"`
	}
	messageLine struct {
		Kind      string            `json:"kind"`
		TenantID  timer.TenantID    `json:"tenantId"`
		Reason    timer.WaitReason  `json:"reason"`
		ArrivedAt stamp             `json:"arrivedAt"`
		Topic     string            `json:"topic"`
		Position  string            `json:"position,omitzero"`
		MessageID string            `json:"messageId"`
		Attempts  int               `json:"attempts,omitzero"`
		LastError string            `json:"lastError,omitzero"`
		Headers   map[string]string `json:"headers"`
		Body      []byte            `json:"body"` // in base64
	}
	trailerLine struct {
		Kind      string `json:"kind"`
		Scheduled int64  `json:"scheduled"`
		Reached   int64  `json:"reached"`
		Expired   int64  `json:"expired,omitzero"`
		Canceled  int64  `json:"canceled"`
		Messages  int64  `json:"messages,omitzero"`
		SHA256    string `json:"sha256,omitzero"`

		Outbox int64 `json:"outbox,omitzero"`
		Parked int64 `json:"parked,omitzero"`
	}
)

// A stamp is a time in a line.
type stamp time.Time

// IsZero reports whether there is no time.
func (s stamp) IsZero() bool { return time.Time(s).IsZero() }

// MarshalText returns the time as messages carry it.
func (s stamp) MarshalText() ([]byte, error) { return []byte(envelope.FormatTime(time.Time(s))), nil }

// UnmarshalText accepts the form of MarshalText.
func (s *stamp) UnmarshalText(text []byte) error {
	t, err := time.Parse("2006-01-02T15:04:05.000Z", string(text))
	if err != nil || t.IsZero() {
		return fieldError(fmt.Sprintf("is %s, want a time like 2030-01-31T12:00:00.000Z", timer.Quote(string(text))))
	}
	*s = stamp(t)
	return nil
}

// A fieldError says why a field is not valid. The name of the field precedes it in the error.
type fieldError string

// Error returns the text.
func (e fieldError) Error() string { return string(e) }

// A lineWriter writes lines, and adds timers and messages to a tally. There is one way to encode a
// timer, so that equal stores have equal exports.
type lineWriter struct {
	out    io.Writer
	tally  *tally
	buffer bytes.Buffer
	json   *jsontext.Encoder
}

func newLineWriter(out io.Writer, t *tally) *lineWriter {
	w := &lineWriter{out: out, tally: t}
	w.json = jsontext.NewEncoder(&w.buffer, json.Deterministic(true))
	return w
}

// line returns the line of a value, with its end. It is valid until the next call.
func (w *lineWriter) line(v any) ([]byte, error) {
	w.buffer.Reset()
	err := json.MarshalEncode(w.json, v)
	return w.buffer.Bytes(), plain(err)
}

// write writes the line of a value.
func (w *lineWriter) write(v any) error {
	line, err := w.line(v)
	if err == nil {
		_, err = w.out.Write(line)
	}
	return err
}

// timer writes the line of a timer.
func (w *lineWriter) timer(e *timer.Entry) error {
	line, err := w.line(newTimerLine(e))
	if err != nil {
		return fmt.Errorf("timer %s: %w", timer.Quote(e.Key.String()), err)
	}
	w.tally.add(e.State, line)
	_, err = w.out.Write(line)
	return err
}

// message writes the line of a message.
func (w *lineWriter) message(m *timer.InboxMessage) error {
	line, err := w.line(newMessageLine(m))
	if err != nil {
		return fmt.Errorf("message %d: %w", m.Seq, err)
	}
	w.tally.addMessage(line)
	_, err = w.out.Write(line)
	return err
}

func newHeaderLine(at time.Time) *headerLine {
	return &headerLine{Kind: kindHeader, Format: formatName, Version: formatVersion, ExportedAt: stamp(at)}
}

func newTrailerLine(s Summary) *trailerLine {
	return &trailerLine{Kind: kindTrailer, Scheduled: s.Timers.Scheduled, Reached: s.Timers.Reached, Expired: s.Timers.Expired, Canceled: s.Timers.Canceled, Messages: s.Messages, SHA256: s.SHA256}
}

// newTimerLine returns the line of a timer. The line of a Canceled timer has the key, the
// state and the version only: these keep older commands from taking effect, and an import
// stores no other field of it.
func newTimerLine(e *timer.Entry) *timerLine {
	l := &timerLine{
		Kind: kindTimer, TenantID: e.TenantID, ServiceCallID: e.ServiceCallID, State: e.State, TimestampMS: e.TimestampMS, CommandID: e.CommandID,
	}
	if e.State != timer.Canceled {
		l.DueAt, l.ExpiresAt, l.ReachedAt = stamp(e.DueAt), stamp(e.ExpiresAt), stamp(e.ReachedAt)
		l.CorrelationID, l.TraceParent, l.TraceState, l.Data = e.CorrelationID, e.Trace.Parent, e.Trace.State, e.Data
	}
	return l
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
		DueAt: time.Time(l.DueAt), ExpiresAt: time.Time(l.ExpiresAt), ReachedAt: time.Time(l.ReachedAt),
	}
	return e, validateTimer(e)
}

// validateTimer returns an error unless a timer is one that a store can hold.
func validateTimer(e timer.Entry) error {
	switch e.State {
	case timer.Canceled:
		return timer.CancelTimer{Key: e.Key, Version: e.Version}.Validate()
	case timer.Scheduled, timer.Reached, timer.Expired:
	default:
		return fmt.Errorf("state is %s, want Scheduled, Reached, Expired or Canceled", timer.Quote(string(e.State)))
	}
	err := e.Command().Validate()
	if err == nil && e.Data != "" {
		err = envelope.ValidateData("data", e.Data)
	}
	switch {
	case err != nil:
		return err
	case e.ReachedAt.IsZero() == e.State.Marked():
		return errors.New("reachedAt must be set if the timer is Reached or Expired, and absent if it is not")
	case e.State.Marked() && e.ReachedAt.Before(e.DueAt):
		return errors.New("reachedAt is before dueAt")
	case e.State.Marked() && e.State != e.Event().State():
		return errors.New("a timer is Expired if reachedAt is not before expiresAt, and otherwise Reached")
	}
	return nil
}

// newMessageLine returns the line of a message, which has neither its place in a log nor when it
// is handled again: an import does not keep them.
func newMessageLine(m *timer.InboxMessage) *messageLine {
	return &messageLine{
		Kind: kindMessage, TenantID: m.TenantID, Reason: m.Reason, ArrivedAt: stamp(m.ArrivedAt), Topic: m.Topic, Position: m.Position, MessageID: m.MessageID,
		Attempts: m.Attempts, LastError: m.LastError, Headers: m.Headers, Body: m.Body,
	}
}

func decodeMessage(line []byte) (m timer.InboxMessage, err error) {
	var l messageLine
	if err := strict(line, &l); err != nil {
		return m, err
	}
	switch {
	case l.Reason != timer.WaitQuota && l.Reason != timer.WaitFailed:
		return m, fmt.Errorf("reason is %s, want over_quota or failed", timer.Quote(string(l.Reason)))
	case l.TenantID == "":
		return m, errors.New("tenantId is empty")
	case l.ArrivedAt.IsZero():
		return m, errors.New("arrivedAt is missing")
	case l.Attempts < 0:
		return m, errors.New("attempts is negative")
	}
	return timer.InboxMessage{
		TenantID: l.TenantID, Reason: l.Reason, ArrivedAt: time.Time(l.ArrivedAt), Topic: l.Topic, Position: l.Position, MessageID: l.MessageID,
		Attempts: l.Attempts, LastError: l.LastError, Headers: l.Headers, Body: l.Body,
	}, nil
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
