package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
	"github.com/event-service-agent/timer-service/timer"
)

// bodyWidth is how many characters of an unknown body a line shows.
const bodyWidth = 100

var errHungUp = errors.New("the service has ended the connection: it stops, or the token is not right any more")

type tailCmd struct {
	What   string  `arg:"" enum:"commands,events,receipts,dlq" help:"What to print: commands, events, receipts or dlq."`
	Tenant visited `placeholder:"TENANT" help:"Only those of a tenant."`
	Number number  `short:"n" placeholder:"N" help:"End after N messages; default no end."`
}

// Help is printed below the summary.
func (tailCmd) Help() string {
	return `Has a running service print messages as they arrive, until it is interrupted. It shows only what is
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
func (t *tailCmd) Run(ctx context.Context, e *env, c *apiclient.Client) error {
	kind := t.What
	if kind == "dlq" {
		kind = "deadletters"
	}
	messages, err := c.Stream(ctx, apiclient.Path("messages", kind)+apiclient.Query("tenant", string(t.Tenant)))
	if err = nameTenant("tail", err); errors.Is(err, timer.ErrInvalid) {
		return refused("tail", err)
	}
	if err != nil {
		return err
	}
	defer messages.Close()
	fmt.Fprintf(e.stderr, "listening to %s\n", t.What)
	in := json.NewDecoder(messages)
	for n := number(0); t.Number == 0 || n < t.Number; n++ {
		var m shownMessage
		switch err := in.Decode(&m.Message); {
		case ctx.Err() != nil:
			return nil // an interrupt is the usual end
		case err != nil:
			return errHungUp
		}
		e.out.print(&m)
		if err := e.out.failed(); err != nil {
			return err
		}
	}
	return nil
}

// A shownMessage is a message as tail prints it.
type shownMessage struct{ admin.Message }

func (s *shownMessage) text() string {
	columns := append([]string{s.At, s.Topic}, s.summary()...)
	return printable(strings.Join(append(columns, "id "+s.ID), "  "))
}

// summary returns the type of a message, its key, and other important fields.
func (s *shownMessage) summary() []string {
	if s.Headers[envelope.HeaderType] == envelope.TypeDeadLetter {
		return []string{
			envelope.TypeDeadLetter, orDash(s.Headers[envelope.HeaderTenantID]),
			orDash(s.Headers[envelope.HeaderDeadLetterReason]) + ": " + short(s.Headers[envelope.HeaderDeadLetterDetail], bodyWidth),
		}
	}
	decoded, err := envelope.Decode(s.Body)
	if err != nil {
		return []string{"invalid", short(cmp.Or(string(s.Body), *cmp.Or(s.Base64, new(string))), bodyWidth)}
	}
	switch m := decoded.Payload.(type) {
	case timer.ScheduleTimer:
		line := []string{decoded.Type, m.Key.String(), "due " + when(envelope.FormatTime(m.DueAt))}
		if !m.ExpiresAt.IsZero() {
			line = append(line, "expires "+when(envelope.FormatTime(m.ExpiresAt)))
		}
		return line
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
	case timer.TimerExpired:
		return []string{decoded.Type, m.Key.String(), fmt.Sprintf("due %s, expired at %s", envelope.FormatTime(m.DueAt), envelope.FormatTime(m.ExpiredAt))}
	case timer.DueTimeReached:
		return []string{decoded.Type, m.Key.String(), fmt.Sprintf("due %s, %s late", envelope.FormatTime(m.DueAt), lateness(max(parseTime(s.At).Sub(m.DueAt), 0).Milliseconds()))}
	}
	return []string{short(decoded.Type, bodyWidth), short(string(s.Body), bodyWidth)}
}

// readable returns the body of a message for people, in base64 if it is not all printable,
// and a note that says so.
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
