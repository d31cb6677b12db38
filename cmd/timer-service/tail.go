package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/event-service-agent/timer-service/broker"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/timer"
)

// bodyWidth is how much of a body that is none of ours a line shows.
const bodyWidth = 100

type tailCmd struct {
	What   string `arg:"" enum:"commands,events,dlq" help:"What to listen to: commands, events or dlq."`
	Tenant string `placeholder:"TENANT" help:"Only those of a tenant."`
	Number int    `short:"n" placeholder:"N" help:"End after so many messages; default none."`
}

// Help is printed below the summary.
func (tailCmd) Help() string {
	return `Prints messages as they come, until it is interrupted. What was published before
is not shown, nothing is taken away from anybody, and nothing is awaited: while
the broker is away, or faster than the output, messages are missed. With -o json
there is one object a message, with its headers and its body.

Examples:

    timer-service tail events
    timer-service tail dlq --tenant acme
    timer-service tail commands -n 10 -o json`
}

// Run prints messages.
func (t *tailCmd) Run(ctx context.Context, e *env) error {
	if err := broker.ValidateVisit(timer.TenantID(t.Tenant)); err != nil {
		return wrong("tail", "--tenant: %s", detail(err))
	}
	if t.Number < 0 {
		return wrong("tail", "-n must not be negative")
	}
	c, err := connect(ctx, e, "tail")
	if err != nil {
		return err
	}
	defer c.close()
	topic, shared, err := t.topic(c.Routing())
	if err != nil {
		return err
	}
	ear, messages, err := listen(ctx, c, topic)
	switch {
	case errors.Is(err, broker.ErrRefused) && t.Tenant == "" && !shared: // a wildcard that is for subscriptions only
		return wrong("tail", "this broker can't listen to all tenants at once: name one with --tenant (%w)", err)
	case err != nil:
		return err
	}
	defer ear.close()
	fmt.Fprintf(e.stderr, "listening to %s\n", topic)
	for n := 0; t.Number == 0 || n < t.Number; {
		m, open := <-messages
		switch {
		case !open && ctx.Err() != nil:
			return nil // that is how it ends
		case !open:
			return errors.New("the broker hung up")
		}
		m.Ack()
		if t.Tenant == "" || !shared || tenantOf(m) == timer.TenantID(t.Tenant) {
			e.out.print(heardOf(m, e.now()))
			n++
		}
		if err := e.out.failed(); err != nil {
			return err
		}
	}
	return nil
}

// topic returns the topic to listen to, and whether all tenants share it.
func (t *tailCmd) topic(r broker.Routing) (topic string, shared bool, err error) {
	template, of := r.Commands, r.CommandsOf
	switch t.What {
	case "events":
		template, of = r.Events, r.EventsOf
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

// tenantOf returns whose message of a shared topic it is: by its header, which
// dead letters have, else by its body.
func tenantOf(m *message.Message) timer.TenantID {
	if tenant := timer.TenantID(m.Metadata.Get(envelope.HeaderTenantID)); tenant != "" {
		return tenant
	}
	return envelope.TenantOf(m.Payload)
}

// A heard message is one as tail prints it.
type heard struct {
	At       stamp             `json:"at"` // when it came here
	Topic    string            `json:"topic"`
	Position string            `json:"position,omitempty"`
	ID       string            `json:"id"`
	Headers  map[string]string `json:"headers,omitempty"`
	shownBody
}

func heardOf(m *message.Message, at time.Time) *heard {
	h := &heard{
		At: stamp(at), Topic: m.Metadata.Get(broker.MetaTopic), Position: m.Metadata.Get(broker.MetaPosition), ID: m.UUID,
		Headers: make(map[string]string), shownBody: showBody(m.Payload),
	}
	for name, value := range m.Metadata {
		if name != broker.MetaTopic && name != broker.MetaPosition && name != broker.MetaDelivery {
			h.Headers[name] = value
		}
	}
	return h
}

func (h *heard) text() string {
	columns := append([]string{h.At.String(), h.Topic}, h.gist()...)
	return printable(strings.Join(append(columns, "id "+h.ID), "  "))
}

// gist returns what is worth knowing of a message: what it is, whose, and what it
// says.
func (h *heard) gist() []string {
	if h.Headers[envelope.HeaderType] == envelope.TypeDeadLetter {
		return []string{
			envelope.TypeDeadLetter, orDash(h.Headers[envelope.HeaderTenantID]),
			orDash(h.Headers[envelope.HeaderDeadLetterReason]) + ": " + short(h.Headers[envelope.HeaderDeadLetterDetail], bodyWidth),
		}
	}
	decoded, err := envelope.Decode(h.bytes)
	if err != nil {
		return []string{"invalid", short(string(h.bytes), bodyWidth)}
	}
	switch m := decoded.Payload.(type) {
	case timer.ScheduleTimer:
		return []string{decoded.Type, m.Key.String(), "due " + stamp(m.DueAt).String()}
	case timer.CancelTimer:
		return []string{decoded.Type, m.Key.String()}
	case timer.DueTimeReached:
		return []string{decoded.Type, m.Key.String(), fmt.Sprintf("due %s, %s late", stamp(m.DueAt), lateness(m.Lateness().Milliseconds()))}
	}
	return []string{short(decoded.Type, bodyWidth), short(string(h.bytes), bodyWidth)}
}
