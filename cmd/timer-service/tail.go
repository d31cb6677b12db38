package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// bodyWidth is how many characters of an unknown body a line shows.
const bodyWidth = 100

var errHungUp = errors.New("the broker closed the subscription")

type tailCmd struct {
	What   string  `arg:"" enum:"commands,events,receipts,dlq" help:"What to print: commands, events, receipts or dlq."`
	Tenant visited `placeholder:"TENANT" help:"Only those of a tenant."`
	Number number  `short:"n" placeholder:"N" help:"End after N messages; default no end."`
}

// Help is printed below the summary.
func (tailCmd) Help() string {
	return `Prints messages as they arrive, until it is interrupted. It shows only what is
published from now on, and takes no message from another consumer. It is not
reliable: messages are missed while the broker is away, or when they arrive faster
than they can be printed. With -o json there is one object a message, with its
headers and its body.

Examples:

    timer-service tail events
    timer-service tail receipts
    timer-service tail dlq --tenant acme
    timer-service tail commands -n 10 -o json`
}

// Run prints messages.
func (t *tailCmd) Run(ctx context.Context, e *env) error {
	c, err := connect(ctx, e, "tail")
	if err != nil {
		return err
	}
	defer c.close()
	topic, shared, err := t.topic(c.Routing())
	if err != nil {
		return err
	}
	subscriber := c.Tail()
	defer func() { _ = subscriber.Close() }() // nothing is lost with it
	messages, err := subscriber.Subscribe(ctx, topic)
	switch {
	case errors.Is(err, broker.ErrRefused) && t.Tenant == "" && !shared: // a wildcard that this user may not subscribe to
		return wrong("tail", "this broker can't listen to all tenants at once: name one with --tenant (%w)", err)
	case err != nil:
		return fmt.Errorf("listen to %s: %w", topic, err)
	}
	fmt.Fprintf(e.stderr, "listening to %s\n", topic)
	for n := number(0); t.Number == 0 || n < t.Number; {
		m, open := <-messages
		switch {
		case !open && ctx.Err() != nil:
			return nil // an interrupt is the usual end
		case !open:
			return errHungUp
		}
		m.Ack()
		if t.Tenant == "" || !shared || tenantOf(m) == timer.TenantID(t.Tenant) {
			e.out.print(showMessage(m, e.now()))
			n++
		}
		if err := e.out.failed(); err != nil {
			return err
		}
	}
	return nil
}

// topic returns the topic to subscribe to, and whether all tenants share it.
func (t *tailCmd) topic(r broker.Routing) (topic string, shared bool, err error) {
	template, of := r.Commands, r.CommandsOf
	switch t.What {
	case "events":
		template, of = r.Events, r.EventsOf
	case "receipts":
		if r.Receipts == "" {
			return "", false, wrong("tail", "there are no receipts: set receipts (TIMER_RECEIPTS=true), for the service too")
		}
		template, of = r.Receipts, r.ReceiptsOf
	case "dlq":
		template, of = r.DeadLetters, r.DeadLettersOf
	}
	shared = of(timer.NoTenant) == template
	switch {
	case t.Tenant != "":
		return of(timer.TenantID(t.Tenant)), shared, nil
	case r.Wildcard == "" && !shared:
		return "", false, wrong("tail", "this broker can't listen to %s, which is a topic for each tenant: name one with --tenant", template)
	}
	return of(timer.TenantID(r.Wildcard)), shared, nil
}

// tenantOf returns the tenant of a message on a shared topic: that of its header,
// which dead letters have, else that of its body.
func tenantOf(m *message.Message) timer.TenantID {
	if tenant := timer.TenantID(m.Metadata.Get(envelope.HeaderTenantID)); tenant != "" {
		return tenant
	}
	return envelope.TenantOf(m.Payload)
}

// A shownMessage is a message as tail prints it.
type shownMessage struct {
	At       string            `json:"at"` // when it arrived here
	Topic    string            `json:"topic"`
	Position string            `json:"position,omitempty"`
	ID       string            `json:"id"`
	Headers  map[string]string `json:"headers,omitempty"`
	Body     any               `json:"body,omitempty"` // as JSON if it is, else text
	Base64   *string           `json:"bodyBase64,omitempty"`
	bytes    []byte
	at       time.Time
}

func showMessage(m *message.Message, at time.Time) *shownMessage {
	s := &shownMessage{
		At: envelope.FormatTime(at), Topic: m.Metadata.Get(broker.MetaTopic), Position: m.Metadata.Get(broker.MetaPosition), ID: m.UUID,
		Headers: make(map[string]string), bytes: m.Payload, at: at,
	}
	switch {
	case !utf8.Valid(m.Payload):
		s.Base64 = new(base64.StdEncoding.EncodeToString(m.Payload))
	case json.Valid(m.Payload):
		s.Body = json.RawMessage(m.Payload)
	default:
		s.Body = string(m.Payload)
	}
	for name, value := range m.Metadata {
		if name != broker.MetaTopic && name != broker.MetaPosition && name != broker.MetaDelivery && name != broker.MetaNoID {
			s.Headers[name] = value
		}
	}
	return s
}

func (s *shownMessage) text() string {
	columns := append([]string{s.At, s.Topic}, s.summary()...)
	return printable(strings.Join(append(columns, "id "+s.ID), "  "))
}

// summary returns the type of a message, its key, and what else matters.
func (s *shownMessage) summary() []string {
	if s.Headers[envelope.HeaderType] == envelope.TypeDeadLetter {
		return []string{
			envelope.TypeDeadLetter, orDash(s.Headers[envelope.HeaderTenantID]),
			orDash(s.Headers[envelope.HeaderDeadLetterReason]) + ": " + short(s.Headers[envelope.HeaderDeadLetterDetail], bodyWidth),
		}
	}
	decoded, err := envelope.Decode(s.bytes)
	if err != nil {
		return []string{"invalid", short(string(s.bytes), bodyWidth)}
	}
	switch m := decoded.Payload.(type) {
	case timer.ScheduleTimer:
		return []string{decoded.Type, m.Key.String(), "due " + when(envelope.FormatTime(m.DueAt))}
	case timer.CancelTimer:
		return []string{decoded.Type, m.Key.String()}
	case timer.Receipt:
		line := []string{decoded.Type, m.Key.String(), "command " + orDash(m.CommandID)}
		switch m.Type {
		case timer.TimerScheduled:
			line = append(line, "due "+when(envelope.FormatTime(m.DueAt)))
		case timer.TimerIgnored:
			line = append(line, string(m.Reason))
		case timer.TimerRejected:
			line = append(line, string(m.Reason)+": "+short(m.Detail, bodyWidth))
		}
		return line
	case timer.DueTimeReached:
		return []string{decoded.Type, m.Key.String(), fmt.Sprintf("due %s, %s late", envelope.FormatTime(m.DueAt), lateness(max(s.at.Sub(m.DueAt), 0).Milliseconds()))}
	}
	return []string{short(decoded.Type, bodyWidth), short(string(s.bytes), bodyWidth)}
}

// readable returns the body of a message for people, in base64 if not all of it is
// printable, and a note that says which.
func readable(b admin.Body) (body, note string) {
	raw := []byte(nil)
	switch {
	case b.Text != nil:
		raw = []byte(*b.Text)
	case b.Base64 != nil:
		raw, _ = base64.StdEncoding.DecodeString(*b.Base64) // the service has encoded it
	}
	note = fmt.Sprintf("%d bytes", len(raw))
	hostile := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if b.Text != nil && strings.IndexFunc(*b.Text, hostile) < 0 {
		return *b.Text, note
	}
	return text.WrapHard(base64.StdEncoding.EncodeToString(raw), 76), note + ", in base64 since not all of them are printable"
}
