package store

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// A Kind is what a record is.
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
	Attempts   int               // failed publishes, but for those while the broker was away
	LastError  string            // of the last of them; may be empty
	Headers    map[string]string //
	Body       []byte            // as consumers get it
}

// HeadersText returns the headers as a JSON object, sorted by name.
func (e Event) HeadersText() (string, error) {
	if err := e.validateHeaders(); err != nil {
		return "", err
	}
	b, err := json.Marshal(e.Headers, json.Deterministic(true))
	return string(b), err
}

func (e Event) validateHeaders() error {
	for name, value := range e.Headers {
		if err := errors.Join(validateText("the name of a header", name), validateText("header "+name, value)); err != nil {
			return err
		}
	}
	return nil
}

// validateText returns an error unless a value is text that all databases store:
// UTF-8, and without a zero byte for PostgreSQL.
func validateText(name, value string) error {
	if utf8.ValidString(value) && strings.IndexByte(value, 0) < 0 {
		return nil
	}
	return fmt.Errorf("%s is not text: %s is not UTF-8 or has a zero byte", name, timer.Quote(value))
}

// Printable returns an error text of a broker as text that all databases and
// exports can hold.
func Printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// name returns what a record is, for errors.
func (r *Record) name() string {
	if r.Kind == KindTimer {
		return "timer " + timer.Quote(r.Timer.Key.String())
	}
	return string(r.Kind) + " " + timer.Quote(r.Event.ID)
}

// validateTexts returns an error unless all texts of a record can be stored.
func (r *Record) validateTexts() error {
	if r.Kind != KindTimer {
		return errors.Join(validateText("id", r.Event.ID), r.Event.validateHeaders())
	}
	e := &r.Timer
	for _, text := range [...]struct{ name, value string }{
		{"tenantId", string(e.TenantID)},
		{"serviceCallId", string(e.ServiceCallID)},
		{"state", string(e.State)},
		{"correlationId", e.CorrelationID},
		{"commandId", e.CommandID},
		{"traceparent", e.Trace.Parent},
		{"tracestate", e.Trace.State},
		{"data", e.Data},
	} {
		if err := validateText(text.name, text.value); err != nil {
			return err
		}
	}
	return nil
}

// validateTimer returns an error unless a timer is one that a store can hold.
func validateTimer(e timer.Entry) error {
	err := timer.CancelTimer{Key: e.Key, Version: e.Version, CorrelationID: e.CorrelationID}.Validate()
	if err == nil && !e.DueAt.IsZero() {
		err = timer.ValidateDueAt(e.DueAt)
	}
	if err == nil && e.Data != "" {
		err = envelope.ValidateData("data", e.Data)
	}
	if err != nil {
		return err
	}
	switch {
	case e.State != timer.Scheduled && e.State != timer.Reached && e.State != timer.Canceled:
		return fmt.Errorf("state is %s, want Scheduled, Reached or Canceled", timer.Quote(string(e.State)))
	case e.RegisteredAt.IsZero():
		return errors.New("registeredAt is missing")
	case e.DueAt.IsZero() && e.State != timer.Canceled:
		return fmt.Errorf("dueAt is missing, though it is %s", e.State)
	case e.Data != "" && e.State == timer.Canceled:
		return errors.New("data must be absent, the timer is Canceled")
	case e.ReachedAt.IsZero() == (e.State == timer.Reached):
		return errors.New("reachedAt must be set if the timer is Reached, and absent if it is not")
	case e.CanceledAt.IsZero() == (e.State == timer.Canceled):
		return errors.New("canceledAt must be set if the timer is Canceled, and absent if it is not")
	case e.State == timer.Reached && e.ReachedAt.Before(e.DueAt):
		return errors.New("reachedAt is before dueAt")
	}
	return nil
}

// validateEvent returns an error unless an event is one that a store can hold.
func validateEvent(e Event, kind Kind) error {
	if err := timer.ValidateID("id", e.ID); err != nil {
		return err
	}
	switch {
	case e.AppendedAt.IsZero():
		return errors.New("appendedAt is missing")
	case e.ParkedAt.IsZero() == (kind == KindParked):
		return errors.New("parkedAt must be set for parked events, and absent for others")
	case e.Attempts < 0:
		return errors.New("attempts is negative")
	}
	return nil
}
