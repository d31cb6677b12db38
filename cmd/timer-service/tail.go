package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/event-service-agent/timer-service/admin"
	"github.com/event-service-agent/timer-service/envelope"
	"github.com/event-service-agent/timer-service/internal/apiclient"
)

// columnWidth is how many characters of a body, or of a header, a line shows.
const columnWidth = 400

var errHungUp = errors.New("the service has ended the connection: it stops, or the token is not right any more")

type tailCmd struct {
	What   string      `arg:"" enum:"commands,events,receipts,dlq" help:"What to print: commands, events, receipts or dlq."`
	Tenant admin.Owner `placeholder:"TENANT" help:"Only those of a tenant."`
	Number number      `short:"n" placeholder:"N" help:"End after N messages; default no end."`
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
	if err != nil {
		return err
	}
	defer messages.Close()
	fmt.Fprintf(e.stderr, "listening to %s\n", t.What)
	in := json.NewDecoder(messages)
	for n := number(0); t.Number == 0 || n < t.Number; n++ {
		var m admin.Message
		switch err := in.Decode(&m); {
		case ctx.Err() != nil:
			return nil // an interrupt is the usual end
		case err != nil:
			return errHungUp
		}
		e.out.print(m, messageText(m))
		if err := e.out.failed(); err != nil {
			return err
		}
	}
	return nil
}

// messageText formats a message as tail prints it.
func messageText(m admin.Message) string {
	h := m.Headers
	columns := []string{
		m.At, m.Topic, h[envelope.HeaderType], h[envelope.HeaderTenantID], h[envelope.HeaderServiceCallID],
		h[envelope.HeaderDeadLetterReason], h[envelope.HeaderDeadLetterDetail], cmp.Or(string(m.Body), *cmp.Or(m.Base64, new(string))), "id " + m.ID,
	}
	for i, column := range columns {
		columns[i] = short(column, columnWidth)
	}
	return strings.Join(slices.DeleteFunc(columns, func(c string) bool { return c == "" }), "  ")
}

// readable returns the body of a message for people, after a line break, in base64 if it is
// not all printable, and a note that says so. Both are empty if there is no body.
func readable(b admin.Body) (body, note string) {
	raw := []byte(*cmp.Or(b.Text, new(string)))
	if b.Base64 != nil {
		raw, _ = base64.StdEncoding.DecodeString(*b.Base64) // the service has encoded it
	}
	if len(raw) == 0 {
		return "", ""
	}
	note = fmt.Sprintf("%d bytes", len(raw))
	hostile := func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }
	if plain := string(raw); utf8.ValidString(plain) && strings.IndexFunc(plain, hostile) < 0 {
		return "\n" + plain, note
	}
	return "\n" + text.WrapHard(base64.StdEncoding.EncodeToString(raw), 76), note + ", in base64 since not all of them are printable"
}
