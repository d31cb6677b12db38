package interop_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/event-service-agent/timer-service/envelope/schema"
)

// A wire is what a client without anything of ours sees of a message.
type wire struct {
	topic      string
	headers    map[string]string
	properties []string // names of what stands beside the headers
	id         string   // what the broker knows it by; empty if it knows none
	key        string   // of Kafka
	body       string
}

// A brokerClient is a plain client of a broker.
type brokerClient interface {
	send(t *testing.T, body string, headers map[string]string)
	receive(t *testing.T, topic string, n int) []wire // the first n messages of a topic
}

// plainClients are those of the brokers, each with a service of its own.
var plainClients = map[string]func(t *testing.T, settings ...string) (c brokerClient, events, deadLetters string){
	"nats":     natsClient,
	"kafka":    kafkaClient,
	"rabbitmq": rabbitClient,
}

const wireTenant = "acme"

// TestHeadersOnTheWire reads raw messages: each header is in docs/messages.md and in
// the schema of headers, and each one of the schema is sent.
func TestHeadersOnTheWire(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "messages.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range plainClients {
		for _, format := range []string{"envelope", "cloudevents"} {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				c, events, deadLetters := start(t, "TIMER_EVENT_FORMAT="+format)
				w := &wires{T: t, page: string(page), format: format}
				w.events(c, events)
				w.deadLetters(c, deadLetters)
			})
		}
	}
}

// wires checks messages.
type wires struct {
	*testing.T
	page   string // docs/messages.md
	format string
	seen   map[string]bool // headers
	schema string          // name of that of the headers
	valid  *jsonschema.Schema
}

// use sets the schema of the headers.
func (w *wires) use(name string) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema.Of(name))))
	if err != nil {
		w.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource(name, document); err != nil {
		w.Fatal(err)
	}
	w.schema, w.valid, w.seen = name, compiler.MustCompile(name), make(map[string]bool)
}

func (w *wires) events(c brokerClient, topic string) {
	now := time.Now()
	command := func(id, kind, more, payload string) string {
		return fmt.Sprintf(`{"id":%q,"type":%q,"tenantId":%q,"timestampMs":%d%s,"payload":{"tenantId":%q,%s}}`, id, kind, wireTenant, now.UnixMilli(), more, wireTenant, payload)
	}
	timer := func(call string) string {
		return fmt.Sprintf(`"serviceCallId":%q,"dueAt":%q`, call, now.UTC().Format(time.RFC3339Nano))
	}
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c.send(w.T, command("c-1", "ScheduleTimer", "", timer("plain")), nil)
	c.send(w.T, command("c-2", "ScheduleTimer", `,"correlationId":"req-1"`, timer("full")), map[string]string{"traceparent": parent, "tracestate": "a=b", "X-Team": "orders"})
	const many = 300 // enough for the embedded server to get them as one batch
	timers := make([]string, many)
	for i := range timers {
		timers[i] = "{" + timer(fmt.Sprint("many-", i)) + "}"
	}
	c.send(w.T, command("c-3", "ScheduleTimers", "", `"timers":[`+strings.Join(timers, ",")+"]"), nil)

	w.use("EventHeaders")
	content := []string{"content-type"}
	if w.format == "envelope" {
		content = nil
	}
	always := append([]string{"messageId", "serviceCallId", "tenantId", "type"}, content...)
	for _, m := range c.receive(w.T, topic, many+2) {
		var body struct {
			ID            string
			Payload, Data struct{ ServiceCallID string }
		}
		if err := json.Unmarshal([]byte(m.body), &body); err != nil {
			w.Fatal(err)
		}
		call := body.Payload.ServiceCallID + body.Data.ServiceCallID
		want := always
		if call == "full" {
			want = append([]string{"correlationId", "traceparent", "tracestate"}, always...)
		}
		w.check(m, want, body.ID)
		if m.headers["serviceCallId"] != call || m.key != "" && m.key != wireTenant+"."+call {
			w.Errorf("%v with the key %q is of %s", m.headers, m.key, call)
		}
	}
	w.complete(map[string]bool{"content-type": w.format == "envelope"})
}

func (w *wires) deadLetters(c brokerClient, topic string) {
	const first = "2026-01-02T03:04:05.678Z"
	c.send(w.T, `{"id":"c-4","type":"CancelTimer","tenantId":"acme","timestampMs":1893456000000,"payload":{}}`, map[string]string{"deadLetterReplays": "1", "deadLetterFirstAt": first, "X-Team": "orders"})
	c.send(w.T, `{"id":"c-5","tenantId":"acme","correlationId":"req-1"`, nil)
	always := []string{"deadLetterCount", "deadLetterDetail", "deadLetterFirstAt", "deadLetterLastAt", "deadLetterReason", "deadLetterReplays", "deadLetterTopic", "messageId", "tenantId", "type"}
	w.use("DeadLetterHeaders")
	deadLetters := c.receive(w.T, topic, 2)
	for _, m := range deadLetters {
		want := always
		for _, optional := range []string{"correlationId", "deadLetterOriginalId", "deadLetterPosition"} {
			if _, ok := m.headers[optional]; ok {
				want = append(want, optional)
			}
		}
		w.check(m, want, m.headers["messageId"])
		if m.key != "" && m.key != m.headers["messageId"] {
			w.Errorf("%v has the key %q", m.headers, m.key)
		}
	}
	replayed := slices.IndexFunc(deadLetters, func(m wire) bool { return strings.Contains(m.body, "CancelTimer") })
	if got := deadLetters[replayed].headers; got["deadLetterReplays"] != "1" || got["deadLetterCount"] != "2" || got["deadLetterFirstAt"] != first {
		w.Errorf("a dead letter that was replayed has %v", got)
	}
	noPosition := strings.HasPrefix(w.Name(), "TestHeadersOnTheWire/rabbitmq") // a queue has none
	w.complete(map[string]bool{"deadLetterTruncated": true, "deadLetterPosition": noPosition})
}

// check compares what stands beside a body with what the docs and the schema say.
func (w *wires) check(m wire, want []string, id string) {
	w.Helper()
	ours := make(map[string]any)
	for header, value := range m.headers {
		w.named(header)
		if !strings.HasPrefix(header, "Nats-") {
			ours[header] = value
			w.seen[header] = true
		}
	}
	for _, property := range m.properties {
		w.named(property)
	}
	want = slices.Sorted(slices.Values(want))
	if got := slices.Sorted(maps.Keys(ours)); !slices.Equal(got, want) {
		w.Errorf("on %s there are the headers %v, want %v", m.topic, got, want)
	}
	if err := w.valid.Validate(ours); err != nil {
		w.Errorf("headers %v: %v", ours, err)
	}
	if m.headers["messageId"] != id || m.id != "" && m.id != id {
		w.Errorf("messageId is %q, the id for the broker %q, want %q", m.headers["messageId"], m.id, id)
	}
}

// named checks that the docs name a header or property.
func (w *wires) named(header string) {
	w.Helper()
	if strings.HasPrefix(header, "Nats-Batch-") {
		header = "Nats-Batch-…"
	}
	if !strings.Contains(w.page, "`"+header+"`") {
		w.Errorf("docs/messages.md does not name %s", header)
	}
}

// complete checks that all headers of the schema were there, but for some.
func (w *wires) complete(without map[string]bool) {
	w.Helper()
	var s struct{ Properties map[string]any }
	if err := json.Unmarshal(schema.Of(w.schema), &s); err != nil {
		w.Fatal(err)
	}
	for header := range s.Properties {
		if w.seen[header] == without[header] {
			w.Errorf("%s has %s; that it was sent is %v", w.schema, header, w.seen[header])
		}
	}
}
